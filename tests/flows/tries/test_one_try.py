"""One try: parameters checked, light handlers here, GDAL handlers in a child that holds no secret and can be killed."""

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Timer
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from domain.contracts.runs import RunFacts
from flows.handlers import registry
from flows.handlers.context import Context
from flows.handlers.errors import Crashed, HandlerError, InvalidInput, PlannedHandler, Stopped, TimedOut
from flows.handlers.registry import handler
from flows.storage import Zones
from flows.tries import one_try, time_budget
from flows.tries.one_try import BadParameters, Care, Try
from tests.support.rasters import bronze

FACTS = RunFacts(id="run", request_id="request", received_at=datetime(2026, 1, 1, tzinfo=UTC), attempt=1)


def attempt(name: str, timeout_seconds: float = 30, **params: Any) -> Try:
    return Try(node_id="n", handler=name, params=params, facts=FACTS, timeout_seconds=timeout_seconds)


def run(one: Try, root: Path, stop: Event | None = None) -> dict[str, Any]:
    return one_try.run_try(one, Care(Zones.local(root), stop or Event(), lambda *_: None))


def test_light_handler_runs_in_this_process(tmp_path: Path) -> None:
    assert run(attempt("echo", a=1), tmp_path) == {"echoed_params": {"a": 1}}


def test_wrong_parameters_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BadParameters, match=r"hello_world: n: Input should be greater than or equal to 1"):
        run(attempt("hello_world", n=0), tmp_path)


@pytest.mark.parametrize("pool", ["light", "gdal"])
def test_result_outside_of_its_model_fails_with_a_sentence(tmp_path: Path, pool: Literal["light", "gdal"]) -> None:
    class Percent(BaseModel):
        share: float = Field(default=0, le=100)

    @handler("test.unsound", pool=pool, example=Percent())
    def unsound(params: Percent, context: Context) -> Percent:
        return Percent(share=101)

    try:
        with pytest.raises(HandlerError) as told:
            one_try.call_handler(
                unsound, Percent(), Context(run_id="run", node_id="n", storage=Zones.local(tmp_path), workdir=tmp_path)
            )
    finally:
        registry._declared.pop("test.unsound")
    wrong = "share: Input should be less than or equal to 100"
    assert str(told.value) == f"test.unsound made a Percent that is none: {wrong}"


def test_a_planned_handler_is_not_run(tmp_path: Path) -> None:
    class Nothing(BaseModel):
        pass

    @handler("test.planned", pool="light", example=Nothing(), planned=True)
    def planned(params: Nothing, context: Context) -> Nothing:
        return params

    registry.registry.cache_clear()
    try:
        with pytest.raises(PlannedHandler, match=r"test\.planned is declared but not written yet"):
            run(attempt("test.planned"), tmp_path)
    finally:
        registry._declared.pop("test.planned")
        registry.registry.cache_clear()


def test_products_of_two_attempts_never_share_a_place() -> None:
    facts = FACTS.model_copy(update={"asset_id": "a", "version_ordinal": 2, "revision": 3})
    first = Try("n", "echo", {}, facts, 1).output_prefix
    second = Try("n", "echo", {}, facts.model_copy(update={"attempt": 2}), 1).output_prefix
    assert (first, second) == ("assets/a/2-r3/a1", "assets/a/2-r3/a2")


def test_gdal_handler_runs_in_its_own_process(tmp_path: Path) -> None:
    bronze(tmp_path, "up/text.tif").write_text("not a raster")
    with pytest.raises(InvalidInput, match=r"'up/text\.tif' is not a GeoTIFF"):
        run(attempt("raster.validate", source="up/text.tif"), tmp_path)


class Slow:
    """A stand-in for the child's program that says nothing and ignores SIGTERM."""

    COMMAND = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(end='', flush=True); time.sleep(600)"
    )


def run_instead(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Have children run this code in place of theirs."""
    real = subprocess.Popen

    def popen(command: list[str], **options: Any) -> Any:
        return real([command[0], "-c", code], **options)

    monkeypatch.setattr(subprocess, "Popen", popen)


@pytest.fixture
def stubborn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children that would never end by themselves, and parents that wait for them only briefly."""
    run_instead(monkeypatch, Slow.COMMAND)
    monkeypatch.setattr(time_budget, "GRACE_SECONDS", 0.3)


@pytest.mark.usefixtures("stubborn")
def test_a_try_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    before = _children()
    with pytest.raises(TimedOut, match=r"longer than its 0\.6 s"):
        run(attempt("raster.validate", 0.6, source="a/b"), tmp_path)
    assert _children() == before


@pytest.mark.usefixtures("stubborn")
def test_a_stop_reaches_the_child(tmp_path: Path) -> None:
    stop, before = Event(), _children()
    Timer(0.3, stop.set).start()
    with pytest.raises(Stopped):
        run(attempt("raster.validate", 600, source="a/b"), tmp_path, stop)
    assert _children() == before


def test_death_of_a_trys_process_is_one_failed_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_instead(monkeypatch, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    with pytest.raises(Crashed, match="SIGSEGV") as crash:
        run(attempt("raster.validate", source="a/b"), tmp_path)
    assert isinstance(crash.value, HandlerError)
    assert crash.value.retryable


def _children() -> list[str]:
    """Processes whose parent is this one."""
    return Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
