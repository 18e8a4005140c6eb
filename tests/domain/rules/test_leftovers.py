"""What is left over: of every state of a request, and of every name beside those that living attempts make."""

import itertools
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from domain.rules.leftovers import EndedRequest, Fate, Making, Place, Retention, fate
from domain.rules.lifecycle import RequestState

PATIENCE = Retention(after_success=10, after_failure=100)
RUNS = ("11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222")
REVISION = ("a" * 32, 0, 1)
HOME = f"assets/{REVISION[0]}/0-r1"
OPEN = {RequestState.PENDING, RequestState.PROCESSING}


def test_leftovers_stay_before_their_time_and_while_a_run_is_at_work() -> None:
    """Every state, before and after either time, with everything that may be said of it."""
    decisions = set[Fate]()
    for status, quiet, flags in itertools.product(
        RequestState, (0, 9.9, 10, 99.9, 100), itertools.product((False, True), repeat=3)
    ):
        decided = fate(EndedRequest(status, quiet, *flags), PATIENCE)
        is_due = quiet >= (10 if status is RequestState.COMPLETED else 100)
        if flags[0] or status in OPEN or not is_due:
            assert decided is Fate.LEAVE
        elif status is RequestState.COMPLETED or flags[1]:
            assert decided is (Fate.COLLECT if flags[2] else Fate.TIDY)
        else:
            assert decided is Fate.COLLECT
        decisions.add(decided)
    assert decisions == set(Fate)


def making(of: Fate, named: frozenset[Place] = frozenset()) -> Making:
    """Of two runs that share a revision's folder: two attempts at most, the first run in its second generation."""
    return Making(of, 2, {RUNS[0]: 2, RUNS[1]: 1}, REVISION, frozenset({"a/0-r1/out"}), named)


GONE_IN_ANY_CASE = {
    ("silver", f"{HOME}/a1/cog.tif"),
    ("silver", f"{HOME}/a2/rows/00000.copy"),
    ("silver", f"{HOME}/a2/.partial-x"),
    ("bronze", f"quarantine/{HOME}/a1/0123.tif"),
    ("runs", f"{HOME}/a1/parts/0_0.tif"),
    ("runs", f"{RUNS[0]}/a1/segment-1/order.json"),
    ("runs", f"{RUNS[0]}/m1/ledger/_nodes/x.jsonl"),
    ("runs", f"{RUNS[1]}/m1/values/.partial-y"),
    ("external", "a/0-r1/out/cog-0123.tif"),
}
GONE_IF_COLLECTED = {("runs", f"{RUNS[0]}/m2/ledger/_nodes/x.jsonl"), ("runs", f"{RUNS[1]}/m1/values/v.json")}
NEVER_GONE = {
    ("silver", f"{HOME}/a3/cog.tif"),  # of an attempt that was opened since
    ("silver", f"{HOME}/a12/cog.tif"),
    ("silver", f"assets/{REVISION[0]}/0-r10/a1/cog.tif"),
    ("silver", f"assets/{REVISION[0]}/0-r1/cog.tif"),
    ("silver", f"assets/{'b' * 32}/0-r1/a1/cog.tif"),
    ("silver", f"{RUNS[0]}/m1/x.json"),
    ("bronze", "uploads/ddh/dem.tif"),
    ("bronze", f"{HOME}/a1/cog.tif"),
    ("runs", f"{RUNS[0]}/m3/values/v.json"),
    ("runs", f"{RUNS[0]}/a3/segment-1/order.json"),
    ("runs", "33333333-3333-3333-3333-333333333333/m1/values/v.json"),
    ("runs", "withdrawn/a/0-r1/out"),
    ("external", "a/0-r1/other/cog-0123.tif"),
    ("external", "a/0-r1/output/cog-0123.tif"),
}


def test_only_files_of_the_requests_own_attempts_are_left_over() -> None:
    everything = GONE_IN_ANY_CASE | GONE_IF_COLLECTED | NEVER_GONE
    for of, gone in (
        (Fate.LEAVE, set[Place]()),
        (Fate.TIDY, GONE_IN_ANY_CASE),
        (Fate.COLLECT, GONE_IN_ANY_CASE | GONE_IF_COLLECTED),
    ):
        assert {place for place in everything if making(of).is_left_over(*place)} == gone


def test_file_that_a_row_names_stays_unless_all_of_a_request_goes() -> None:
    named = frozenset(GONE_IN_ANY_CASE)
    kept = {place for place in named if not making(Fate.TIDY, named).is_left_over(*place)}
    assert named - kept == {place for place in named if "/m1/" in place[1]}, "what a run remembers, no row names"
    assert all(making(Fate.COLLECT, named).is_left_over(*place) for place in named)


def test_run_without_a_revision_has_a_folder_of_its_own() -> None:
    of = replace(making(Fate.COLLECT), revision=None)
    assert of.is_left_over("silver", f"runs/{RUNS[1]}/a1/x.tif")
    assert of.is_left_over("runs", f"runs/{RUNS[1]}/a2/notes/x.json")
    assert not of.is_left_over("silver", f"runs/{RUNS[1]}/a3/x.tif")
    assert not of.is_left_over("silver", f"{HOME}/a1/cog.tif")


@given(st.data())
def test_no_file_of_an_attempt_that_is_opened_later_is_ever_left_over(data: st.DataObject) -> None:
    """However attempts and generations went before: who decided is still removing while the request is run again.

    As the domain does it: a rerun begins generations anew and numbers attempts beyond those of all of the runs.
    """
    attempts = {run: data.draw(st.integers(1, 12)) for run in RUNS}
    memories = {run: data.draw(st.integers(1, 12)) for run in RUNS}
    revision = data.draw(st.sampled_from([REVISION, None]))
    of = Making(Fate.COLLECT, max(attempts.values()), dict(memories), revision, frozenset())
    first = max(attempts.values()) + 1
    for run in RUNS:
        memory, number = memories[run] + 1, first + data.draw(st.integers(0, 9))
        home = HOME if revision else f"runs/{run}"
        made = data.draw(st.sampled_from(["cog.tif", ".partial-x", "rows/1.copy", "a1/x", "m1/x"]))
        for zone, name in (
            ("silver", f"{home}/a{number}/{made}"),
            ("runs", f"{home}/a{number}/{made}"),
            ("bronze", f"quarantine/{home}/a{number}/{made}"),
            ("runs", f"{run}/a{number}/{made}"),
            ("runs", f"{run}/m{memory}/{made}"),
        ):
            assert not of.is_left_over(zone, name)
            past = name.replace(f"/a{number}/", f"/a{attempts[run]}/").replace(f"/m{memory}/", f"/m{memories[run]}/")
            assert of.is_left_over(zone, past)
