"""The models of OGC API – Processes, part 1. They decide nothing of ours."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from domain.contracts.reviews import ClearanceLevel

JobStatus = Literal["accepted", "running", "successful", "failed", "dismissed"]
EXCEPTIONS = "http://www.opengis.net/def/exceptions/ogcapi-processes-1/1.0"
CONFORMANCE = [
    "http://www.opengis.net/spec/ogcapi-common-1/1.0/conf/core",
    "http://www.opengis.net/spec/ogcapi-common-1/1.0/conf/json",
    "http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf/core",
    "http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf/json",
    "http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf/ogc-process-description",
    "http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf/job-list",
    "http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf/dismiss",
]


class Told(BaseModel):
    """An answer, in the standard's camel case."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class WebLink(Told):
    href: str
    rel: str
    type: str = "application/json"
    title: str


class LandingPage(Told):
    title: str
    description: str
    links: list[WebLink]


class Conformance(Told):
    conforms_to: list[str]


class ProcessSummary(Told):
    id: str
    title: str
    description: str
    version: str
    job_control_options: list[Literal["async-execute", "dismiss"]]
    output_transmission: list[Literal["value"]]
    links: list[WebLink]


class ProcessList(Told):
    processes: list[ProcessSummary]
    links: list[WebLink]


class InputDescription(Told):
    title: str
    description: str | None = None
    min_occurs: int
    max_occurs: Literal[1] = 1
    json_schema: Annotated[dict[str, Any], Field(alias="schema", description="A JSON Schema")]


class OutputDescription(Told):
    title: str
    json_schema: Annotated[dict[str, Any], Field(alias="schema", description="A JSON Schema")]


class ProcessDescription(ProcessSummary):
    inputs: dict[str, InputDescription]
    outputs: dict[str, OutputDescription]


class Asked(BaseModel):
    """What is sent to us. A name that means nothing here is refused, not passed over."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)


class OutputWish(Asked):
    transmission_mode: Literal["value"] = "value"


class Subscriber(Asked):
    """Who is told of the end: one signed message to one address, however the job ends."""

    success_uri: str = Field(max_length=2000)
    failed_uri: str | None = Field(default=None, max_length=2000, description="The same address, where it is given")


class Execute(Asked):
    """What is to be done."""

    inputs: dict[str, Any] = Field(max_length=80)
    outputs: dict[str, OutputWish] = Field(default_factory=dict, max_length=20)
    response: Literal["document"] = Field(default="document", description="Results are a JSON document")
    subscriber: Subscriber | None = None


class StatusInfo(Told):
    job_id: Annotated[UUID, Field(alias="jobID")]
    process_id: Annotated[str, Field(alias="processID")]
    type: Literal["process"] = "process"
    status: JobStatus
    message: str | None = None
    created: datetime
    started: datetime | None = None
    finished: datetime | None = None
    progress: int = Field(ge=0, le=100)
    links: list[WebLink]


class JobList(Told):
    """Newest first. A link `next` leads to the rest."""

    jobs: list[StatusInfo]
    links: list[WebLink]


class QualifiedOutputs(BaseModel):
    """An object stands in a results document as the value of something."""

    value: dict[str, Any] = Field(description="What the process made, by the names of its own outputs")


class Results(BaseModel):
    """What a job came to. Its data is readable once `approval` and `clearance` say so."""

    asset_id: str
    version: int
    revision: int
    approval: Literal["pending_review", "approved", "rejected"]
    clearance: ClearanceLevel
    outputs: QualifiedOutputs
