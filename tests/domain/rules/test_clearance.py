"""The clearance rule over every state there is."""

from itertools import product
from typing import get_args

import pytest

from domain.rules.clearance import (
    ORDER,
    STAFF,
    Clearance,
    Exposure,
    Identity,
    Role,
    after_approval,
    may_read,
    may_review,
    may_see_version,
)

OWNER = "ddh"
READERS = [
    None,
    *(Identity("client", role, platform) for role, platform in product(get_args(Role), (OWNER, "arcgis", None))),
]
STATES = list(product(READERS, get_args(Clearance), (True, False)))


def kind(reader: Identity | None) -> str:
    """Who the reader is to the owner's product, told in another way than the rule tells it."""
    if reader is None or reader.role in ("worker", "gateway"):
        return "public"
    if reader.role == "partner":
        return "owner" if reader.platform_id == OWNER else "public"
    return "staff"


@pytest.mark.parametrize(("reader", "clearance", "approved"), STATES)
def test_reader_sees_exactly_what_clearance_and_approval_allow(
    reader: Identity | None, clearance: Clearance, approved: bool
) -> None:
    allowed = {
        ("public", True): {"public", "owner", "staff"},
        ("ouo", True): {"owner", "staff"},
        ("uncleared", True): {"staff"},
        ("public", False): {"staff"},
        ("ouo", False): {"staff"},
        ("uncleared", False): {"staff"},
    }
    assert may_read(reader, clearance, OWNER, approved) is (kind(reader) in allowed[clearance, approved])


@pytest.mark.parametrize(("reader", "exposure", "is_latest"), list(product(READERS, get_args(Exposure), (True, False))))
def test_older_versions_need_exposure_or_a_claim(reader: Identity | None, exposure: Exposure, is_latest: bool) -> None:
    expected = is_latest or exposure == "all_versions" or kind(reader) in ("owner", "staff")
    assert may_see_version(reader, exposure, OWNER, is_latest) is expected


def test_more_approval_or_clearance_never_takes_reading_away() -> None:
    order: list[Clearance] = ["uncleared", "ouo", "public"]
    for reader, approved in product(READERS, (True, False)):
        readable = [may_read(reader, clearance, OWNER, approved) for clearance in order]
        assert readable == sorted(readable)
    for reader, clearance in product(READERS, order):
        assert may_read(reader, clearance, OWNER, True) >= may_read(reader, clearance, OWNER, False)


def test_staff_are_those_who_review_and_operate() -> None:
    assert set(get_args(Role)) - STAFF == {"partner", "worker", "gateway"}


@pytest.mark.parametrize(("current", "asked"), list(product(ORDER, repeat=2)))
def test_an_approval_never_lowers_a_clearance(current: Clearance, asked: Clearance) -> None:
    after = after_approval(current, asked)
    assert ORDER.index(after) == max(ORDER.index(current), ORDER.index(asked))


def test_reviewers_decide_about_every_platform_and_named_partners_about_their_own() -> None:
    for role, platform, scopes in product(get_args(Role), (OWNER, "arcgis", None), ({"review"}, {"other"}, ())):
        who = Identity("client", role, platform, frozenset(scopes))
        named = role == "partner" and platform == OWNER and scopes == {"review"}
        assert may_review(who, OWNER) is (role in {"reviewer", "admin"} or named)
        assert may_review(who, None) is (role in {"reviewer", "admin"})
