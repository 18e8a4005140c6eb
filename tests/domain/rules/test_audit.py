"""The chain: whatever is changed, left out, moved or added, verification names the place."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.rules.audit import GENESIS, SEAL_TEXT, Chain, ChainState, Entry, Seal, SealKey

OLD, NEW = SealKey.of("o" * 32), SealKey.of("n" * 32)
KEYED, ROTATED, KEYLESS = Chain((OLD,), 0), Chain((NEW, OLD), 0), Chain()
BEGINNING = ChainState(0, GENESIS)
ENTRY = Entry(1, datetime(2026, 1, 2, tzinfo=UTC), "reviewer", "reviewer", "approve", "asset/a", {"clearance": "ouo"})


def chain(length: int, by: Chain = KEYED, after: Sequence[Seal] = ()) -> list[Seal]:
    links = list(after)
    for number in range(len(links) + 1, len(links) + length + 1):
        entry = replace(ENTRY, audit_id=number, details={"n": number})
        links.append(Seal(number, number, by.seal(links[-1].hash if links else GENESIS, entry), entry))
    return links


def verify(links: Sequence[Seal], head: ChainState = BEGINNING) -> ChainState:
    return KEYED.verify(links, head)


def test_an_untouched_chain_holds() -> None:
    links = chain(5)
    assert verify(links) == ChainState(5, links[-1].hash)
    assert verify(links[3:], verify(links[:3])) == ChainState(5, links[-1].hash)
    assert verify([]) == ChainState(0, GENESIS)


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
    links[1] = Seal(2, 2, KEYED.seal(links[0].hash, forged), forged)
    assert verify(links).sequence == 3


@pytest.mark.parametrize("zone", ["UTC", "Europe/Zurich", "America/St_Johns"])
def test_seal_does_not_depend_on_the_time_zone_of_its_entry(zone: str) -> None:
    """What was sealed under UTC keeps its hash."""
    under_utc = "0c0aee991a7bc6a3806e0d8ece33d4a07bb87ac398a083e2c0e1e802596da2fb"
    assert KEYLESS.seal(GENESIS, replace(ENTRY, at=ENTRY.at.astimezone(ZoneInfo(zone)))) == under_utc


def test_chain_remade_without_the_key_is_found() -> None:
    """They write what they like to the database, and name any key that they have seen there."""
    guessed = SealKey(OLD.name, b"g" * 32)
    assert "was changed" in (verify(chain(3, Chain((guessed,)))).fault or "")
    assert "without a key" in (verify(chain(3, KEYLESS)).fault or "")
    assert "without a key" in (verify(chain(2, KEYLESS, after=chain(2))).fault or "")
    assert verify(chain(3)).fault is None, "the control"


def test_keyless_seals_hold_only_up_to_the_last_one_noted() -> None:
    links = chain(2, after=chain(3, KEYLESS))
    assert Chain((OLD,), 3).verify(links) == ChainState(5, links[-1].hash)
    assert Chain((OLD,), 2).verify(links).sequence == 3
    assert Chain((OLD,)).verify(links).fault is None, "development believes all of them"
    entry = links[1].entry
    assert entry
    links[1] = replace(links[1], entry=replace(entry, actor="somebody else"))
    assert "was changed" in (Chain((OLD,), 3).verify(links).fault or "")


def test_after_rotation_each_key_verifies_its_own_seals() -> None:
    links = chain(2, ROTATED, after=chain(2))
    assert [link.hash.partition(":")[0] for link in links] == [OLD.name, OLD.name, NEW.name, NEW.name]
    assert ROTATED.verify(links).fault is None
    assert f"Seal 1 was made with key {OLD.name}" in (Chain((NEW,), 0).verify(links).fault or "")
    assert all(re.fullmatch(SEAL_TEXT, link.hash) for link in [*links, *chain(1, KEYLESS)])


def test_seal_key_is_refused_when_short_and_never_shown() -> None:
    with pytest.raises(ValueError, match="fewer than 32"):
        SealKey.of("short")
    assert "o" * 32 not in repr(KEYED)
