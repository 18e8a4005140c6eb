"""The export family: copies public products to the external zone, and removes the copies.

A copy and a removal of one export may meet: a worker that was fenced writes on until it notices. The removal therefore
leaves a mark first, and a copy looks for the mark after each file it has written: whichever comes second cleans up.
"""

import hashlib
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from pydantic import BaseModel, Field

from domain.contracts.artifacts import Artifact
from domain.rules.places import withdrawal_note
from flows.handlers.context import Context
from flows.handlers.errors import HandlerError, Stopped
from flows.handlers.raster.declarations import COG
from flows.handlers.registry import handler
from flows.storage import Store
from flows.storage.protocol import Check


class Withdrawn(Stopped):
    """The export was taken back while it was made."""

    code = "export-withdrawn"


class CopyParams(BaseModel):
    artifacts: list[Artifact] = Field(min_length=1, description="What to copy, as the version's run recorded it")
    destination: str = Field(max_length=700, description="Generated folder of the external zone, of this export alone")


class ExportResult(BaseModel):
    """Where the copies are."""

    external_blob_path: str
    adf_run_id: str | None = Field(default=None, description="Of the pipeline run, where one did the work")
    artifacts: list[Artifact]


EXPORTED = ExportResult(external_blob_path="asset/0-r1/export", artifacts=[COG.model_copy(update={"zone": "external"})])


@handler("export.copy", pool="light", timeout_seconds=7200, example=EXPORTED, publishes=True)
def copy(params: CopyParams, context: Context) -> ExportResult:
    """Copy the artifacts to the external zone, each verified by its checksum."""
    copies, before = list[Artifact](), 0
    given = _distinct(params)
    whole = sum(artifact.size_bytes for artifact in given)
    for artifact in given:
        copied = _copy_of(artifact, params.destination)
        target = copied.name
        _refuse_withdrawn(params.destination, target, context)
        if not _holds(context.storage.external, target, artifact, context):  # an earlier try may have made it
            _copy(artifact, target, context, _reporting_progress(before, whole, context))
            _refuse_withdrawn(params.destination, target, context)
        copies.append(copied)
        before += artifact.size_bytes
    return ExportResult(external_blob_path=params.destination, artifacts=copies)


def _distinct(params: CopyParams) -> list[Artifact]:
    """Return one artifact of each content: equal files have one name in the external zone."""
    return list({_generated_name(artifact): artifact for artifact in params.artifacts}.values())


def _reporting_progress(before: int, whole: int, context: Context) -> Check:
    """Return a check that reports the progress of all files while one of them is copied."""

    def check(moved: int) -> None:
        context.raise_if_stopping()
        done = before + moved
        context.progress(done / max(whole, done, 1), f"{done:,} of {whole:,} bytes")

    return check


def _generated_name(artifact: Artifact) -> str:
    """Return a name made of role and content, so that the same file has the same name in every try."""
    return f"{artifact.role}-{artifact.sha256[:16]}{PurePosixPath(artifact.name).suffix}"


def _copy(artifact: Artifact, target: str, context: Context, told: Check) -> None:
    source: Store = getattr(context.storage, artifact.zone)
    if not _holds(source, artifact.name, artifact, context):
        raise HandlerError(f"{artifact.zone}/{artifact.name} is not what its run recorded: its checksum differs.")
    context.storage.external.copy_from(target, source, artifact.name, told)
    if not _holds(context.storage.external, target, artifact, context):
        raise HandlerError(f"The copy {target} is not what was sent there: its checksum differs.")


def _holds(store: Store, name: str, artifact: Artifact, context: Context) -> bool:
    """Whether the blob is there with the artifact's content."""
    if store.size_bytes(name) != artifact.size_bytes:
        return False
    digest = hashlib.sha256()
    for chunk in _chunks(store, name, context):
        digest.update(chunk)
    return digest.hexdigest() == artifact.sha256


def _chunks(store: Store, name: str, context: Context) -> Iterator[bytes]:
    for chunk in store.chunks(name):
        context.raise_if_stopping()
        yield chunk


def _refuse_withdrawn(destination: str, target: str, context: Context) -> None:
    if context.storage.runs.size_bytes(withdrawal_note(destination)) is not None:
        context.storage.external.delete(target)
        raise Withdrawn("This export was withdrawn. What is public again is exported anew.")


class AdfParams(CopyParams):
    pipeline: str = Field(pattern=r"^[A-Za-z0-9_-]{1,140}$", description="Name of the Data Factory pipeline")
    pipeline_parameters: dict[str, Any] = Field(
        default_factory=dict, description="Of the workflow's own; `destination` and `files` are always given"
    )
    poll_seconds: float = Field(default=15, ge=1, le=600)


@handler(
    "export.adf",
    pool="light",
    timeout_seconds=14_400,
    publishes=True,
    example=EXPORTED.model_copy(update={"adf_run_id": "00000000-0000-0000-0000-000000000000"}),
)
def adf(params: AdfParams, context: Context) -> ExportResult:
    """Run an Azure Data Factory pipeline that copies the artifacts, and wait for its end."""
    from flows.handlers.adf.client import data_factory
    from flows.handlers.adf.running import PipelineExport, check_copies, run_to_its_end
    from flows.handlers.adf.settings import AdfSettings

    given = _distinct(params)
    copies = [_copy_of(artifact, params.destination) for artifact in given]
    files = [
        {"zone": artifact.zone, "source": artifact.name, "target": made.name}
        for artifact, made in zip(given, copies, strict=True)
    ]
    parameters = {**params.pipeline_parameters, "files": files}
    export = PipelineExport(params.pipeline, parameters, params.destination, params.poll_seconds)
    with data_factory(AdfSettings()) as factory:
        run_id = run_to_its_end(factory, export, context)
    for made in copies:
        _refuse_withdrawn(params.destination, made.name, context)
    check_copies(copies, context)
    return ExportResult(external_blob_path=params.destination, adf_run_id=run_id, artifacts=copies)


def _copy_of(artifact: Artifact, destination: str) -> Artifact:
    return artifact.model_copy(update={"zone": "external", "name": f"{destination}/{_generated_name(artifact)}"})


class WithdrawParams(BaseModel):
    external_blob_path: str = Field(max_length=700, description="The destination that the export was given")


class WithdrawResult(BaseModel):
    removed: list[str] = Field(description="Names of the blobs that were there and are gone")


@handler(
    "export.withdraw",
    pool="light",
    timeout_seconds=1800,
    publishes=True,
    example=WithdrawResult(removed=["asset/0-r1/export/cog-0123456789abcdef.tif"]),
)
def withdraw(params: WithdrawParams, context: Context) -> WithdrawResult:
    """Remove an export's copies from the external zone. What is gone already is no error."""
    destination = params.external_blob_path
    context.storage.runs.write_bytes(withdrawal_note(destination), b"")
    removed = context.storage.external.delete_below(destination)
    if _cancel_pipeline(destination, context):
        removed += context.storage.external.delete_below(destination)
    return WithdrawResult(removed=removed)


def _cancel_pipeline(destination: str, context: Context) -> bool:
    """Cancel the export's pipeline, which does not know the mark; return whether there was one."""
    from flows.handlers.adf.notes import noted_run

    run_id = noted_run(context, destination)
    if run_id is None:
        return False
    from flows.handlers.adf.client import data_factory
    from flows.handlers.adf.running import cancel_to_its_end
    from flows.handlers.adf.settings import AdfSettings

    with data_factory(AdfSettings()) as factory:
        cancel_to_its_end(factory, run_id, context)
    return True
