"""The stacks that tests of several files share, each with the workflows of all of them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks import engine, workers
from tests.chaos import test_engine_stops, test_hosts
from tests.e2e import test_engine, test_history, test_operator_acts, test_prefect_ui
from tests.support.clock import until
from tests.support.cluster import open_folder
from tests.support.engine_chaos import OUTAGE_FACTOR, Trial, trial
from tests.support.leftovers import strays
from tests.support.stack import RunningStack, with_workflows

OF_STORIES = (
    engine.workflows(chain_length=5)
    | workers.WORKFLOWS
    | test_history.WORKFLOWS
    | test_operator_acts.WORKFLOWS
    | test_prefect_ui.WORKFLOWS
)
# What completed requests left over goes at once, so that every story is told over a collector at work.
COLLECTS = {"CAIRN_KEPT_AFTER_SUCCESS_SECONDS": "0", "CAIRN_COLLECT_SECONDS": "1"}
# Whether all stories are told over Prefect's own engines instead of ours.
ENGINE = {"CAIRN_ENGINE": os.environ["CAIRN_TESTED_ENGINE"]} if "CAIRN_TESTED_ENGINE" in os.environ else {}
RERUN_SECONDS = 7 * 86_400


@contextmanager
def for_stories() -> Iterator[RunningStack]:
    """As a user has it; nothing of it is left afterwards, and before it ends no file without a row."""
    with open_folder("stack") as folder:
        with with_workflows(folder, OF_STORIES, **COLLECTS, **ENGINE).up() as running:
            yield running
            until(lambda: not alone(running), tell=lambda: "\n".join(alone(running)))
        assert running.processes() == []


def alone(stack: RunningStack) -> list[str]:
    """What of all stories lies there without a row, once their flow runs have been seen to be over."""
    return strays(stack.url("postgres"), stack.folder / "storage", RERUN_SECONDS)


@contextmanager
def with_short_patience() -> Iterator[Trial]:
    """Where waiting is only waiting it is shortened."""
    workflows = test_engine_stops.WORKFLOWS | test_engine.WORKFLOWS | test_hosts.WORKFLOWS
    with trial("impatient", workflows, prefect_factor=OUTAGE_FACTOR) as made:
        yield made
