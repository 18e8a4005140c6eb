"""What `cairn deploy` makes of the domain's answer."""

from dataclasses import replace
from typing import Any

from deployments.cli.publishing import differing
from deployments.deploy import runnable_plans
from deployments.stack.state import REPOSITORY

PLANS, _ = runnable_plans(REPOSITORY / "workflows")
ECHO = next(plan for plan in PLANS if plan.workflow_id == "echo_test")


def answer(**refused: str) -> dict[str, Any]:
    """As if the domain had read the clone's folder."""
    rows = [{"workflow_id": plan.workflow_id, "version": str(plan.version), "digest": plan.digest} for plan in PLANS]
    return {"workflows": rows, "refused": refused}


def test_deploy_reports_nothing_if_the_domain_read_the_same_files() -> None:
    assert differing(PLANS, answer(), []) == []


def test_deploy_reports_a_domain_that_reads_another_folder() -> None:
    newer = replace(ECHO, version=2, digest="another")
    [told] = differing([newer], answer(), [])
    assert told == "the domain runs version 1 of echo_test, the file is version 2: it reads another folder."
    [told] = differing([replace(ECHO, workflow_id="mine")], answer(), [])
    assert told.startswith("the domain runs no version of mine")


def test_deploy_names_a_workflow_that_the_domain_refuses_unless_it_was_left_out() -> None:
    assert differing(PLANS, answer(broken="it has faults"), []) == ["broken is refused: it has faults"]
    assert differing(PLANS, answer(broken="it has faults"), ["broken"]) == []
