"""The export family: copies of what is approved and public in the external zone, and their removal. Not yet written."""

from typing import Any, NoReturn

from pydantic import BaseModel, Field

from domain.contracts.artifacts import Artifact
from flows.context import Context
from flows.errors import PlannedHandler
from flows.handlers.raster.declarations import COG
from flows.handlers.registry import handler


def _planned(name: str) -> NoReturn:
    raise PlannedHandler(f"{name} is declared for authors but not written yet.")


class CopyParams(BaseModel):
    artifacts: list[Artifact] = Field(min_length=1, description="What to copy, as the version's run recorded it")


class ExportResult(BaseModel):
    """Where the copies are."""

    external_blob_path: str
    adf_run_id: str | None = Field(default=None, description="Of the pipeline run, where one did the work")
    artifacts: list[Artifact]


EXPORTED = ExportResult(
    external_blob_path="rasters/asset/0-r1", artifacts=[COG.model_copy(update={"zone": "external"})]
)


@handler("export.copy", pool="light", timeout_seconds=7200, example=EXPORTED, planned=True)
def copy(params: CopyParams, context: Context) -> ExportResult:
    """Copy the artifacts to the external zone, each verified by its checksum."""
    _planned("export.copy")


class AdfParams(CopyParams):
    pipeline: str = Field(pattern=r"^[A-Za-z0-9_-]{1,140}$", description="Name of the Data Factory pipeline")
    pipeline_parameters: dict[str, Any] = Field(default_factory=dict)
    poll_seconds: float = Field(default=15, ge=1, le=600)


@handler(
    "export.adf",
    pool="light",
    timeout_seconds=14_400,
    example=EXPORTED.model_copy(update={"adf_run_id": "00000000-0000-0000-0000-000000000000"}),
    planned=True,
)
def adf(params: AdfParams, context: Context) -> ExportResult:
    """Run an Azure Data Factory pipeline that copies the artifacts, and wait for its end."""
    _planned("export.adf")


class WithdrawParams(BaseModel):
    external_blob_path: str = Field(max_length=900, description="As the export reported it")


class WithdrawResult(BaseModel):
    removed: list[str] = Field(description="Names of the blobs that were there and are gone")


@handler(
    "export.withdraw",
    pool="light",
    timeout_seconds=1800,
    example=WithdrawResult(removed=["rasters/asset/0-r1/cog.tif"]),
    planned=True,
)
def withdraw(params: WithdrawParams, context: Context) -> WithdrawResult:
    """Remove an export's copies from the external zone. What is gone already is no error."""
    _planned("export.withdraw")
