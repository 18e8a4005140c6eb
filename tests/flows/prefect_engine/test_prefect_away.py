"""Prefect is away, and refuses, fails or says nothing: whoever works waits, and whoever is to leave leaves in time."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import httpx
import pytest
from prefect import Flow
from prefect.client.orchestration import PrefectClient, SyncPrefectClient
from prefect.client.schemas.objects import StateType
from prefect.exceptions import PrefectHTTPStatusError
from prefect.settings import PREFECT_CLIENT_CSRF_SUPPORT_ENABLED, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from flows.handlers.errors import Stopped
from flows.prefect_engine import artifacts, flow_run, patient_client, tag_limits
from flows.prefect_engine.artifacts import ShownArtifact
from flows.prefect_engine.flow_run import ask_until_answered
from flows.prefect_engine.inline_flow_run import InlineEngine
from flows.runs import claim, stop_signals
from flows.runs.child_flow_runs import prefect_states
from flows.runs.child_flow_runs.liveness import TO_BEGIN, ChildRun, Life
from flows.runs.child_flow_runs.start import SegmentRuns
from flows.runs.stopping import Stop
from flows.settings import WorkerSettings
from flows.tries.time_budget import Outlasting
from tests.flows.runs.test_child_flow_runs import Marking
from tests.support.clock import PATIENCE_SECONDS

API = "http://prefect.test/api"
FAULTS: list[Any] = [httpx.ConnectError("refused"), httpx.ReadTimeout("silent"), 503, 500]


class Away:
    """A server that meets questions with faults, then answers."""

    def __init__(self, faults: list[Any]) -> None:
        self.faults = list(faults)
        self.transport = httpx.MockTransport(self.answer)

    def answer(self, request: httpx.Request) -> httpx.Response:
        fault = self.faults.pop(0) if self.faults else 200
        if isinstance(fault, Exception):
            raise fault
        return httpx.Response(fault, json="3.8.8")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    class Quick(Outlasting):
        def pause(self, now: float, spread: float) -> float | None:
            return None if super().pause(now, spread) is None else 0.0

    monkeypatch.setattr(patient_client, "Outlasting", Quick)
    with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0, PREFECT_CLIENT_CSRF_SUPPORT_ENABLED: False}):
        yield


async def ask(server: Away) -> None:
    async with PrefectClient(API, httpx_settings={"transport": server.transport}) as client:
        await client.api_version()


def ask_sync(server: Away) -> None:
    with SyncPrefectClient(API, httpx_settings={"transport": server.transport}) as client:
        client.api_version()


# --- the client ---


async def test_client_inside_a_patient_block_waits_for_the_answer() -> None:
    server = Away(FAULTS)
    with patient_client.patient():
        await ask(server)
        await asyncio.create_task(ask(Away(FAULTS)))
    assert server.faults == []


@pytest.mark.parametrize("fault", FAULTS)
async def test_client_outside_a_patient_block_raises_at_once(fault: Any) -> None:
    with patient_client.patient():
        pass
    with pytest.raises((httpx.TransportError, PrefectHTTPStatusError)):
        await ask(Away([fault]))


def test_all_clients_of_a_patient_process_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patient_client, "_patient_process", False)
    patient_client.be_patient()
    server = Away(FAULTS)
    ask_sync(server)
    assert server.faults == []


@pytest.mark.parametrize(("program", "is_patient"), [("prefect.engine", True), ("prefect", False), ("pytest", False)])
def test_process_of_one_flow_run_is_patient_and_no_other(
    program: str, is_patient: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patient_client, "_patient_process", False)
    monkeypatch.setitem(sys.modules, "__main__", cast("Any", SimpleNamespace(__spec__=SimpleNamespace(name=program))))
    patient_client.be_patient_as_a_run()
    assert patient_client._patient_process is is_patient


async def test_refusal_by_prefect_is_not_waited_out() -> None:
    with patient_client.patient(), pytest.raises(PrefectHTTPStatusError):
        await ask(Away([404]))


async def test_a_patient_client_gives_up_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patient_client, "Outlasting", lambda: Outlasting(allowed_seconds=0))
    with patient_client.patient(), pytest.raises(httpx.ReadTimeout):
        await ask(Away([httpx.ReadTimeout("silent")] * 3))


# --- who waits, and who is to leave ---


async def silence(*_: object, **__: object) -> Any:
    """What a question to a Prefect comes to that answers nothing."""
    await asyncio.Event().wait()


async def nothing() -> None:
    """A flow's body."""


async def test_a_stop_cuts_a_wait_for_prefect_short_at_once() -> None:
    """Its client would ask on for minutes, and a worker that ends tears the run off before."""
    stop = Stop()
    waiting = asyncio.create_task(ask_until_answered(silence, "a test", stop))
    await asyncio.sleep(0)
    stop.set("draining")
    with pytest.raises(Stopped):
        await asyncio.wait_for(waiting, PATIENCE_SECONDS)


async def test_timeout_of_a_request_is_not_taken_for_a_stop() -> None:
    async def too_slow() -> None:
        raise TimeoutError("of the question")

    with pytest.raises(TimeoutError, match="of the question"):
        await ask_until_answered(too_slow, "a test", Stop())


async def test_question_whether_a_signal_was_a_cancellation_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_signals, "WHY_SECONDS", 0.01)
    monkeypatch.setattr(stop_signals, "flow_run_id", lambda: UUID(int=1))
    prefect = cast("PrefectClient", SimpleNamespace(read_flow_run=silence))
    assert not await asyncio.wait_for(stop_signals.is_being_cancelled(prefect), PATIENCE_SECONDS)


@pytest.mark.parametrize("what", ["limits", "picture"])
async def test_optional_questions_to_prefect_are_not_waited_for(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tag_limits, "ANSWER_SECONDS", 0.01)
    monkeypatch.setattr(artifacts, "HUNG_SECONDS", 0.01)
    prefect: Any = SimpleNamespace(read_global_concurrency_limits=silence, request=silence)
    asks: dict[str, Callable[[], Awaitable[object]]] = {
        "limits": lambda: tag_limits.TagLimits().learn(prefect),
        "picture": lambda: ShownArtifact(prefect, UUID(int=1), "markdown", "run-1").show("text", "a card"),
    }
    await asyncio.wait_for(asks[what](), PATIENCE_SECONDS)


async def test_recording_an_aborted_run_in_prefect_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_run, "RUN_RECORDED_SECONDS", 0.01)
    monkeypatch.setattr(InlineEngine, "set_state", silence)
    engine = InlineEngine(flow=Flow(fn=nothing), flow_run=cast("Any", SimpleNamespace(state=None)))
    monkeypatch.setattr(InlineEngine, "state", SimpleNamespace(is_final=lambda: False))
    await asyncio.wait_for(engine._record_end(asyncio.CancelledError()), PATIENCE_SECONDS)


async def test_storage_block_is_asked_for_until_prefect_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    import blocks.storage

    faults: list[Any] = [httpx.ReadTimeout("silent")]

    async def load(name: str) -> str:
        if faults:
            raise faults.pop()
        return f"zones of {name}"

    monkeypatch.setattr(blocks.storage, "load_zones", load)
    monkeypatch.setattr(flow_run, "OUTAGE_PAUSE_SECONDS", 0.0)
    settings = cast("WorkerSettings", SimpleNamespace(names_storage=False, storage_block="local-zones/cairn"))
    assert cast("Any", await claim._zones(settings, Stop())) == "zones of local-zones/cairn"


# --- children ---


@pytest.mark.parametrize("state", [StateType.PENDING, StateType.RUNNING])
def test_child_that_cannot_begin_during_an_outage_is_neither_late_nor_silent(state: StateType) -> None:
    waiting = ChildRun(
        "place", UUID(int=1), Life(10), wait_seconds=20, created_at=0, looked_at=0, asked_at=0, state=state
    )
    waiting.pass_time(1, is_paused=False)
    assert not waiting.is_lost()
    waiting.is_unheard = True
    waiting.pass_time(5000, is_paused=False)
    assert not waiting.is_lost()
    assert not waiting.waits_too_long(5000)
    waiting.is_unheard = False
    waiting.pass_time(5000 + 10 * TO_BEGIN, is_paused=False)
    assert not waiting.is_lost(), "it is given the time in which one begins"
    waiting.pass_time(5001 + 10 * TO_BEGIN, is_paused=False)
    assert waiting.is_lost()


async def test_parent_knows_whether_prefect_answered_each_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefect_states, "ASK_SECONDS", 0.0)
    watched = ChildRun("place", UUID(int=1), Life(10))
    answers: Any = Marking(StateType.PENDING)
    segments = SegmentRuns(answers, cast("Any", None), 10, states=prefect_states.ChildStates())
    with segments.states.watching(watched.flow_run_id):
        await segments._ask_prefect(watched)
        assert not watched.is_unheard
        segments.prefect = cast("Any", SimpleNamespace(count_flow_runs=_refused))
        await segments._ask_prefect(watched)
        assert watched.is_unheard
        segments.prefect = answers
        await segments._ask_prefect(watched)
        assert not watched.is_unheard


async def _refused(**_: Any) -> Any:
    raise httpx.ConnectError("refused")
