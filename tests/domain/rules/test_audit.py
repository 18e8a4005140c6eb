"""The chain: whatever is changed, left out, moved or added, verification names the place."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.rules.audit import GENESIS, Entry, Seal, Verdict, seal, verify

ENTRY = Entry(1, datetime(2026, 1, 2, tzinfo=UTC), "reviewer", "reviewer", "approve", "asset/a", {"clearance": "ouo"})


def chain(length: int) -> list[Seal]:
    links: list[Seal] = []
    for number in range(1, length + 1):
        entry = replace(ENTRY, audit_id=number, details={"n": number})
        links.append(Seal(number, number, seal(links[-1].hash if links else GENESIS, entry), entry))
    return links


def test_an_untouched_chain_holds() -> None:
    links = chain(5)
    assert verify(links) == Verdict(5, links[-1].hash)
    assert verify(links[3:], verify(links[:3])) == Verdict(5, links[-1].hash)
    assert verify([]) == Verdict(0, GENESIS)


@given(place=st.integers(0, 4), field=st.sampled_from(["at", "actor", "role", "action", "subject", "details"]))
def test_a_changed_entry_breaks_the_chain_where_it_is(place: int, field: str) -> None:
    changes: dict[str, Any] = {"at": datetime(2026, 1, 3, tzinfo=UTC), "details": {"n": "other"}}
    links = chain(5)
    entry = links[place].entry
    assert entry
    links[place] = replace(links[place], entry=replace(entry, **{field: changes.get(field, "other")}))
    found = verify(links)
    assert (found.sequence, found.fault is not None) == (place + 1, True)


@given(place=st.integers(0, 4))
def test_a_missing_seal_or_entry_is_noticed(place: int) -> None:
    links = chain(5)
    gone = [*links[:place], replace(links[place], entry=None), *links[place + 1 :]]
    assert "is gone" in (verify(gone).fault or "")
    cut = links[:place] + links[place + 1 :]
    assert (verify(cut).fault is None) is (place == 4), "only the end can be cut unseen: note the head elsewhere"


def test_a_remade_seal_does_not_fit_the_next_one() -> None:
    links = chain(3)
    forged = replace(ENTRY, audit_id=2, actor="somebody else")
    links[1] = Seal(2, 2, seal(links[0].hash, forged), forged)
    assert verify(links).sequence == 3


@pytest.mark.parametrize("zone", ["UTC", "Europe/Zurich", "America/St_Johns"])
def test_the_zone_that_a_time_is_read_in_is_no_part_of_it(zone: str) -> None:
    """What was sealed under UTC keeps its hash."""
    under_utc = "0c0aee991a7bc6a3806e0d8ece33d4a07bb87ac398a083e2c0e1e802596da2fb"
    assert seal(GENESIS, replace(ENTRY, at=ENTRY.at.astimezone(ZoneInfo(zone)))) == under_utc
