"""Exports by a pipeline: one run each whatever happens on the way, by the real client against recorded answers."""

import hashlib
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from pydantic import ValidationError

from deployments.stack.owner import tied
from domain.contracts.artifacts import Artifact
from flows.handlers.adf import running
from flows.handlers.adf.answers import FactoryBusy, FactoryRefused, PipelineCancelled, PipelineFailed, RunGone
from flows.handlers.adf.settings import AdfSettings
from flows.handlers.context import Context
from flows.handlers.errors import HandlerError, InvalidInput, Stopped
from flows.handlers.export import AdfParams, ExportResult, Withdrawn, WithdrawParams, adf, withdraw
from flows.memory.checkpoint import StoredCheckpoint
from flows.storage import Zones
from tests.support.clock import until
from tests.support.data_factory import FORBIDDEN, PIPELINE, StandIn, data_factory_stand_in

DESTINATION = "asset/0-r1/export"
CONTENT = b"one" * 1000
REPOSITORY = Path(__file__).resolve().parents[4]


@pytest.fixture
def factory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[StandIn]:
    """A stand-in whose pipeline copies as a real one would, and a worker that polls without waiting long."""
    with data_factory_stand_in() as stand_in:
        for name, value in stand_in.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(running, "VISIBLE_SECONDS", 0.2)
        stand_in.on_start = lambda parameters: copied(tmp_path, parameters)
        yield stand_in


def copied(root: Path, parameters: dict[str, Any]) -> None:
    zones = Zones.local(root)
    for file in parameters["files"]:
        zones.external.write_bytes(file["target"], getattr(zones, file["zone"]).read_bytes(file["source"]))


def context(root: Path, stop: Event | None = None) -> Context:
    zones = Zones.local(root)
    checkpoint = StoredCheckpoint(zones.runs, "m1/checkpoints/export.json")
    return Context(
        run_id="r", node_id="n", storage=zones, workdir=root, stop_event=stop or Event(), checkpoint=checkpoint
    )


def export(root: Path, stop: Event | None = None, **more: Any) -> ExportResult:
    zones = Zones.local(root)
    zones.silver.write_bytes("x/cog.tif", CONTENT)
    digest = hashlib.sha256(CONTENT).hexdigest()
    artifact = Artifact(
        role="cog", zone="silver", name="x/cog.tif", media_type="image/tiff", sha256=digest, size_bytes=len(CONTENT)
    )
    params = AdfParams(artifacts=[artifact], destination=DESTINATION, pipeline=PIPELINE, **more)
    return adf(params.model_copy(update={"poll_seconds": 0.01}), context(root, stop))


def test_export_by_a_pipeline_copies_and_returns_the_run_id(factory: StandIn, tmp_path: Path) -> None:
    made = export(tmp_path, pipeline_parameters={"region": "north"})
    [run_id] = factory.runs
    assert (made.adf_run_id, made.external_blob_path) == (run_id, DESTINATION)
    [artifact] = made.artifacts
    assert Zones.local(tmp_path).external.read_bytes(artifact.name) == CONTENT
    given = factory.runs[run_id]["parameters"]
    assert (given["destination"], given["region"]) == (DESTINATION, "north")
    assert factory.calls == ["start", "run", "run", "run"]


def stop_once_watched(factory: StandIn, stop: Event) -> None:
    """Stop an export whose pipeline runs, and was asked after."""
    until(lambda: "run" in factory.calls)
    stop.set()


def test_next_try_after_a_stop_goes_on_with_the_same_pipeline_run(factory: StandIn, tmp_path: Path) -> None:
    factory.statuses = ["InProgress"]
    stop = Event()
    Thread(target=stop_once_watched, args=(factory, stop)).start()
    with pytest.raises(Stopped):
        export(tmp_path, stop)
    [run_id] = factory.runs
    assert "cancel" not in factory.calls  # the pipeline goes on
    factory.runs[run_id]["left"] = ["Succeeded"]
    assert export(tmp_path).adf_run_id == run_id
    assert factory.calls.count("start") == 1


EXPORT = "from pathlib import Path; from tests.flows.handlers.adf.test_running import export; export(Path({!r}))"


def test_pipeline_run_whose_id_was_lost_is_found(
    factory: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker is killed after Data Factory made the run and before it has answered; queries show the run late."""
    workers: list[subprocess.Popen[bytes]] = []

    def copy_and_kill(parameters: dict[str, Any]) -> None:
        copied(tmp_path, parameters)
        workers[0].kill()
        workers[0].wait()

    factory.on_start = copy_and_kill
    command = tied(sys.executable, "-c", EXPORT.format(str(tmp_path)))
    workers.append(subprocess.Popen(command, cwd=REPOSITORY, env=os.environ | factory.environment))
    assert workers[0].wait(120) == -signal.SIGKILL
    [run_id] = factory.runs
    factory.hides_new_runs = 2
    monkeypatch.setattr(running, "VISIBLE_SECONDS", 60)
    assert export(tmp_path).adf_run_id == run_id
    assert factory.calls.count("start") == 1


def test_pipeline_run_that_was_never_created_is_created(factory: StandIn, tmp_path: Path) -> None:
    factory.refuse("start", 503)
    with pytest.raises(FactoryBusy):
        export(tmp_path)
    assert export(tmp_path).adf_run_id in factory.runs
    assert factory.calls.count("start") == 2
    assert "query" in factory.calls


def test_passing_failures_of_data_factory_are_waited_out(factory: StandIn, tmp_path: Path) -> None:
    for status in (429, 500, 503, 429):
        factory.refuse("run", status)
    export(tmp_path)
    assert factory.calls.count("start") == 1


def test_a_factory_that_does_not_answer_any_more_fails_the_try_and_keeps_the_run(
    factory: StandIn, tmp_path: Path
) -> None:
    factory.refuse("run", 500, times=running.PATIENCE)
    with pytest.raises(FactoryBusy):
        export(tmp_path)
    assert export(tmp_path).adf_run_id in factory.runs
    assert factory.calls.count("start") == 1


@pytest.mark.parametrize(("status", "error"), [("Failed", PipelineFailed), ("Cancelled", PipelineCancelled)])
def test_failed_pipeline_run_is_not_waited_for_again(
    factory: StandIn, tmp_path: Path, status: str, error: type[HandlerError]
) -> None:
    factory.statuses = ["InProgress", status]
    with pytest.raises(error):
        export(tmp_path)
    factory.statuses = ["Succeeded"]
    assert export(tmp_path).adf_run_id == list(factory.runs)[1]


def test_forgotten_pipeline_run_is_created_anew(factory: StandIn, tmp_path: Path) -> None:
    factory.refuse("run", 404)
    with pytest.raises(RunGone):
        export(tmp_path)
    assert export(tmp_path).adf_run_id == list(factory.runs)[1]


def test_pipeline_success_without_the_files_is_a_failure(factory: StandIn, tmp_path: Path) -> None:
    factory.on_start = None
    with pytest.raises(HandlerError, match="is not there"):
        export(tmp_path)


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [(403, FORBIDDEN, FactoryRefused), (404, None, FactoryRefused), (400, None, InvalidInput)],
)
def test_refusal_by_data_factory_is_not_retryable(
    factory: StandIn, tmp_path: Path, status: int, body: Any, error: type[HandlerError]
) -> None:
    factory.refuse("start", status, body)
    with pytest.raises(error) as refused:
        export(tmp_path)
    assert not refused.value.retryable


def test_export_by_a_worker_without_an_identity_fails_with_that_reason(
    factory: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    factory.token_status = 400
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "prod")  # only what a deployed worker would try
    with pytest.raises(FactoryRefused, match="no identity"):
        export(tmp_path)
    assert factory.calls == []


def test_a_withdrawal_first_ends_the_pipeline(factory: StandIn, tmp_path: Path) -> None:
    factory.statuses = ["InProgress"]
    stop = Event()
    Thread(target=stop_once_watched, args=(factory, stop)).start()
    with pytest.raises(Stopped):
        export(tmp_path, stop)
    late = Zones.local(tmp_path).external
    factory.on_cancel = lambda: late.write_bytes(f"{DESTINATION}/late.tif", b"written while it was being cancelled")
    removed = withdraw(WithdrawParams(external_blob_path=DESTINATION), context(tmp_path)).removed
    assert [name.rpartition("/")[0] for name in removed] == [DESTINATION] * 2
    assert late.names(DESTINATION) == []
    assert factory.calls[-2:] == ["run", "run"]
    assert "cancel" in factory.calls
    with pytest.raises((Withdrawn, PipelineCancelled)):
        export(tmp_path)


def test_a_withdrawal_of_an_export_without_a_pipeline_asks_nobody(factory: StandIn, tmp_path: Path) -> None:
    assert withdraw(WithdrawParams(external_blob_path=DESTINATION), context(tmp_path)).removed == []
    assert factory.calls == []


def test_access_token_appears_in_no_log_checkpoint_or_error(
    factory: StandIn, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not to a log, not to a checkpoint, not to an error; the positive control is the path that they do name."""
    caplog.set_level(logging.DEBUG)
    export(tmp_path)
    factory.refuse("start", 403, FORBIDDEN)
    Zones.local(tmp_path).runs.delete("m1/checkpoints/export.json")
    with pytest.raises(FactoryRefused) as refused:
        export(tmp_path)
    kept = b"".join(path.read_bytes() for path in (tmp_path / "runs").rglob("*") if path.is_file())
    told = "\n".join(record.getMessage() for record in caplog.records)
    assert "createRun" in told
    for secret in (factory.token, "identity-header-secret"):
        assert secret not in told
        assert secret.encode() not in kept
        assert secret not in repr(refused.value)


def test_a_token_is_never_sent_in_the_clear() -> None:
    known: dict[str, Any] = {
        "subscription_id": "12345678-1234-1234-1234-123456789abc",
        "resource_group": "g",
        "factory": "fac",
    }
    assert AdfSettings(**known).scope == "https://management.azure.com/.default"
    with pytest.raises(ValidationError, match="https"):
        AdfSettings(**known, endpoint="http://management.azure.com")
