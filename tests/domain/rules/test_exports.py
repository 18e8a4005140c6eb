"""What goes out and what comes back, over every change of everything that decides it."""

from itertools import product

import pytest

from domain.rules.clearance import may_read, may_see_version
from domain.rules.exports import ExportOrder, Publicity, exposed, order, orders

CLEARANCES = ("uncleared", "ouo", "public")
EXPOSURES = ("latest_only", "all_versions")
SERVED = [
    {ordinal: revision for ordinal, revision in enumerate(revisions) if revision is not None}
    for revisions in product((None, 1, 2), repeat=2)
]
STATES = [
    Publicity(clearance, exposure, deleted, served)  # type: ignore[arg-type]
    for clearance, exposure, deleted, served in product(CLEARANCES, EXPOSURES, (False, True), SERVED)
]


@pytest.mark.parametrize("asset", STATES, ids=str)
def test_version_is_exposed_exactly_when_anybody_may_read_it(asset: Publicity) -> None:
    """The same as the rule of serving, asked for nobody in particular."""
    anybody = {
        (ordinal, revision)
        for ordinal, revision in asset.served.items()
        if may_read(None, asset.clearance, "ddh", approved=True)
        and may_see_version(None, asset.exposure, "ddh", is_latest=ordinal == max(asset.served))
    }
    assert exposed(asset) == (set() if asset.deleted else anybody)


def test_after_any_change_exactly_the_exposed_revisions_are_exported() -> None:
    for before, after in product(STATES, repeat=2):
        out = set(exposed(before))
        given = orders(out, after)
        for revision in {(ordinal, revision) for ordinal in (0, 1) for revision in (1, 2)}:
            was, belongs = revision in out, revision in exposed(after)
            expected = {(False, True): ExportOrder.EXPORT, (True, False): ExportOrder.WITHDRAW}.get(
                (was, belongs), ExportOrder.NOTHING
            )
            assert given.get(revision, ExportOrder.NOTHING) is expected, (before, after)
        assert set(orders(exposed(after), after).values()) <= {ExportOrder.NOTHING}  # asked again, nothing more


@pytest.mark.parametrize(
    ("is_out", "belongs_out", "expected"),
    [
        (False, False, ExportOrder.NOTHING),
        (False, True, ExportOrder.EXPORT),
        (True, False, ExportOrder.WITHDRAW),
        (True, True, ExportOrder.NOTHING),
    ],
)
def test_revision_is_exported_withdrawn_or_left_by_where_it_belongs(
    is_out: bool, belongs_out: bool, expected: ExportOrder
) -> None:
    assert order(is_out=is_out, belongs_out=belongs_out) is expected
