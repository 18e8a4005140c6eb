"""The names of Prefect's insides: all in use are listed, the release has them, a renamed one is named."""

import inspect
from pathlib import Path
from typing import Any

import pytest
from prefect.client.base import PrefectHttpxAsyncClient
from prefect.task_engine import AsyncTaskRunEngine

from deployments.workers.draining import Draining
from deployments.workers.forking import ForkingWorker
from deployments.workers.inline import InlineWorker
from flows.prefect_engine.flow_run import QuietEngine, _InnerEngine
from flows.prefect_engine.inline_flow_run import InlineEngine
from flows.prefect_engine.insides import SUPPORTED, Inside, insides
from flows.prefect_engine.task_run import NodeEngine
from tests.support.prefect_names import lacking
from tests.support.prefect_uses import ANY, Uses, read, unlisted, uses

REPOSITORY = Path(__file__).resolve().parents[3]


def test_every_name_of_prefects_insides_that_code_uses_is_listed() -> None:
    assert unlisted(uses(REPOSITORY), insides()) == {}


def test_installed_prefect_has_every_listed_name() -> None:
    assert lacking() == []


def test_listed_name_that_no_code_mentions_is_no_longer_listed() -> None:
    source = "\n".join(path.read_text() for room in ("flows", "deployments", "blocks") for path in _files(room))
    last = {str(name).rpartition(".")[2].rpartition(":")[2].rpartition("(")[2].rstrip(")") for name in insides()}
    assert [name for name in sorted(last) if name not in source] == []


def test_pinned_prefect_is_the_first_that_is_supported() -> None:
    assert f"prefect=={SUPPORTED[0]}" in (REPOSITORY / "constraints.txt").read_text().splitlines()


@pytest.mark.parametrize(
    ("kind", "name"), [(AsyncTaskRunEngine, "handle_exception"), (PrefectHttpxAsyncClient, "_send_with_retry")]
)
def test_renamed_name_is_missed_by_its_name(kind: type, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind, f"{name}_anew", getattr(kind, name), raising=False)
    monkeypatch.delattr(kind, name)
    (told,) = lacking()
    assert told.startswith(f"{kind.__module__}:{kind.__name__}.{name}, for: ")


def test_renamed_parameter_is_missed_by_its_name() -> None:
    kept = Inside("prefect.context", "FlowRunContext(flow_run)", "a control")
    assert lacking([kept, Inside("prefect.context", "FlowRunContext(flow_walk)", "nothing")]) == [
        "prefect.context:FlowRunContext(flow_walk), for: nothing"
    ]


@pytest.mark.parametrize(
    "kind", [QuietEngine, _InnerEngine, InlineEngine, NodeEngine, Draining, InlineWorker, ForkingWorker]
)
def test_what_replaces_prefects_takes_what_prefect_passes(kind: type) -> None:
    assert strange(kind) == []


def test_replacement_that_takes_less_is_named() -> None:
    class Less(NodeEngine):
        async def set_state(self, state: Any) -> Any:  # type: ignore[override]
            """Take no `force`."""

    assert strange(Less) == ["set_state(force)"]


def strange(kind: type) -> list[str]:
    """Parameters of what the class replaces of Prefect's that its own does not take."""
    found = []
    for name, own in vars(kind).items():
        theirs = [vars(base)[name] for base in kind.__mro__[1:] if _is_prefects(base) and name in vars(base)]
        if inspect.isfunction(own) and theirs and inspect.isfunction(theirs[0]) and not name.startswith("__"):
            taken = inspect.signature(own).parameters
            is_open = any(one.kind is one.VAR_KEYWORD for one in taken.values())
            found += [
                f"{name}({one})" for one in inspect.signature(theirs[0]).parameters if one not in taken and not is_open
            ]
    return found


def _is_prefects(kind: type) -> bool:
    return kind.__module__.startswith("prefect.")


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("from prefect.flows import _new", ("prefect.flows", "_new")),
        ("from prefect.task_engine import run_it", ("prefect.task_engine", "run_it")),
        ("from prefect import Task\nTask._hidden()", ("prefect", "Task._hidden")),
        ("from prefect import Task\nmade()._hidden", (ANY, "_hidden")),
        ("from prefect import Task\nvars(task)['quiet'] = 1", (ANY, "quiet")),
        ("from prefect import Task\nvars(task).update(silent=1)", (ANY, "silent")),
        ("from prefect.context import X\nX(word=1)", ("prefect.context", "X(word)")),
        ("names = ['prefect.task_worker']", ("prefect.task_worker", "")),
    ],
)
def test_use_that_is_not_listed_is_found(source: str, name: tuple[str, str]) -> None:
    found = Uses()
    read(source, "new.py", found)
    assert name in unlisted(found.found, insides())


def test_inherited_name_that_is_not_listed_is_found() -> None:
    found = Uses()
    source = (
        "from prefect.task_engine import AsyncTaskRunEngine as E\nclass Mine(E):\n  def f(self): self.handle_rollback()"
    )
    read(source, "new.py", found)
    assert ("prefect.task_engine", "AsyncTaskRunEngine.handle_rollback") in unlisted(found.all(), insides())


def _files(room: str) -> list[Path]:
    return [path for path in (REPOSITORY / room).rglob("*.py") if path.name != "insides.py"]
