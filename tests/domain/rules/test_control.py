"""What may be run again, and what opens with it, over every state."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.rules.control import RevisionFacts, Scope, reopened, rerun_refusal, scope_name, scopes_of
from domain.rules.lifecycle import Approval, RunState

ENDED = {RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED}
REVISIONS = [None, *(RevisionFacts(*facts) for facts in product(Approval, (True, False), (True, False)))]
SCOPES: list[Scope] = ["failed", "all"]


@pytest.mark.parametrize(("scope", "state", "revision"), list(product(SCOPES, RunState, REVISIONS)))
def test_run_may_be_done_again_only_once_ended_and_undecided(
    scope: Scope, state: RunState, revision: RevisionFacts | None
) -> None:
    ended = state in ENDED and not (scope == "failed" and state is RunState.COMPLETED)
    undecided = revision is None or revision == RevisionFacts(Approval.PENDING_REVIEW, is_newest=True, exists=True)
    assert (rerun_refusal(scope, state, revision) is None) is (ended and undecided)


@given(st.lists(st.sampled_from(RunState), min_size=1, max_size=6), st.data())
def test_rerun_opens_the_failed_and_cancelled_runs_behind_it(states: list[RunState], data: st.DataObject) -> None:
    runs = list(enumerate(states, start=1))
    sequence = data.draw(st.integers(1, len(runs)))
    assert reopened("all", sequence, runs) == [number for number, _ in runs]
    for number in reopened("failed", sequence, runs):
        assert number >= sequence
        assert states[number - 1] in {RunState.FAILED, RunState.CANCELLED}


def test_pause_or_limit_names_exactly_one_subject() -> None:
    assert scope_name() == "*"
    assert scope_name(pool="gdal") == "pool:gdal"
    assert scopes_of("w", "p") == ("workflow:w", "platform:p")
    assert scopes_of("w", None) == scopes_of("w", "") == ("workflow:w",)
    with pytest.raises(ValueError, match="about one thing"):
        scope_name(workflow_id="w", platform_id="p")
