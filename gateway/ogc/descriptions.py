"""Processes, jobs and results as the standard words them. Pure: rows and addresses in, documents out."""

from collections.abc import Mapping, Sequence
from typing import Any

from domain.contracts.offers import Offer
from domain.contracts.platforms import PlatformRow
from domain.contracts.submissions import RequestState
from gateway import answers
from gateway.ogc.models import (
    InputDescription,
    JobStatus,
    LandingPage,
    OutputDescription,
    ProcessDescription,
    ProcessSummary,
    Results,
    StatusInfo,
    WebLink,
)
from gateway.reads.queries import RequestRow

STATUSES: Mapping[RequestState, JobStatus] = {
    "pending": "accepted",
    "processing": "running",
    "completed": "successful",
    "failed": "failed",
    "cancelled": "dismissed",
}
RELATION = "http://www.opengis.net/def/rel/ogc/1.0"
OPENAPI = "application/vnd.oai.openapi+json;version=3.0"
TEXT = {"type": "string", "minLength": 1, "maxLength": 200}
SOURCE = {"type": "string", "minLength": 1, "maxLength": 900}
PRIORITY = {"type": "string", "enum": ["low", "normal", "high"], "default": "normal"}
OUTPUTS = {
    "asset_id": OutputDescription(title="The asset that the data is a version of", json_schema={"type": "string"}),
    "version": OutputDescription(title="The version's number", json_schema={"type": "integer"}),
    "revision": OutputDescription(title="The version's revision", json_schema={"type": "integer"}),
    "approval": OutputDescription(
        title="Whether people have approved it",
        json_schema={"type": "string", "enum": ["pending_review", "approved", "rejected"]},
    ),
    "clearance": OutputDescription(
        title="Who may read it", json_schema={"type": "string", "enum": ["uncleared", "ouo", "public"]}
    ),
    "outputs": OutputDescription(title="What was made, by the names of its outputs", json_schema={"type": "object"}),
}


def landing(base: str) -> LandingPage:
    """Where to begin."""
    words = {"self": (base, "This document")}
    words |= {
        f"{RELATION}/{name}": (f"{base}/{path}", title)
        for name, path, title in (
            ("conformance", "conformance", "The parts of the standard that hold here"),
            ("processes", "processes", "What can be done"),
            ("job-list", "jobs", "Your platform's jobs"),
        )
    }
    links = [WebLink(href=href, rel=relation, title=title) for relation, (href, title) in words.items()]
    root = base.removesuffix("/ogc")
    openapi = WebLink(href=f"{root}/openapi.json", rel="service-desc", type=OPENAPI, title="The API in OpenAPI")
    return LandingPage(
        title="Cairn",
        description="Submit rasters and vectors, and follow what becomes of them.",
        links=[*links, openapi],
    )


def serves(offer: Offer, platform: PlatformRow) -> bool:
    """Whether the platform may ask for the process: its registry row may fix what it submits."""
    fixed = {"data_type": offer.data_type, "operation": offer.operation}
    return all(platform.rule(name).constant in {None, value} for name, value in fixed.items())


def own_names(platform: PlatformRow) -> dict[str, bool]:
    """Return the inputs by which a platform says what the data is, and whether each is required."""
    names = {name: name not in platform.optional_refs for name in (*platform.refs, platform.version_ref)}
    rules = {name: platform.rule(name) for name in names}
    return {name: names[name] and rule.default is None for name, rule in rules.items() if rule.constant is None}


def parameter_names(offer: Offer, platform: PlatformRow) -> dict[str, str]:
    """Map the process's own inputs to the names that they are offered under; a platform's names win."""
    taken = {*platform.refs, platform.version_ref, "source", "priority"}
    own = [one["name"] for one in offer.inputs if one["name"] != "source"]
    return {(f"parameters.{name}" if name in taken else name): name for name in own}


def summary(offer: Offer, base: str) -> ProcessSummary:
    """A process in the list."""
    return ProcessSummary.model_validate(_facts(offer, base))


def description(offer: Offer, platform: PlatformRow, base: str) -> ProcessDescription:
    """A process, with the inputs that this platform gives it."""
    declared = {one["name"]: one for one in offer.inputs}
    inputs = {name: _input(name, TEXT, required=needed) for name, needed in own_names(platform).items()}
    inputs["source"] = _input("source", declared.get("source", {}).get("schema", SOURCE), required=True)
    for offered, name in parameter_names(offer, platform).items():
        inputs[offered] = _input(offered, declared[name]["schema"], required=declared[name]["required"])
    inputs["priority"] = _input("priority", PRIORITY, required=False)
    return ProcessDescription.model_validate({**_facts(offer, base), "inputs": inputs, "outputs": OUTPUTS})


def _facts(offer: Offer, base: str) -> dict[str, Any]:
    here = f"{base}/processes/{offer.process_id}"
    return {
        "id": offer.process_id,
        "title": offer.title,
        "description": offer.description,
        "version": offer.version,
        "job_control_options": ["async-execute", "dismiss"],
        "output_transmission": ["value"],
        "links": [
            WebLink(href=here, rel="self", title="This process, with its inputs and outputs"),
            WebLink(href=f"{here}/execution", rel=f"{RELATION}/execute", title="Execute"),
        ],
    }


def _input(name: str, schema: dict[str, Any], *, required: bool) -> InputDescription:
    words = schema.get("description")
    bare = {key: value for key, value in schema.items() if key != "description"}
    return InputDescription(title=name, description=words, min_occurs=int(required), json_schema=bare)


def job(row: RequestRow, base: str) -> StatusInfo:
    """A request as a job."""
    here = f"{base}/jobs/{row.request_id}"
    links = [WebLink(href=here, rel="self", title="This job")]
    if row.status == "completed":
        links.append(WebLink(href=f"{here}/results", rel=f"{RELATION}/results", title="Its results"))
    problem = row.problem if row.status == "failed" else None
    return StatusInfo(
        job_id=row.request_id,
        process_id=f"{row.data_type}_{row.operation}",
        status=STATUSES[row.status],
        message=(problem or {}).get("detail"),
        created=row.created_at,
        started=row.started_at,
        finished=row.finished_at,
        progress=answers.progress(row).percent,
        links=links,
    )


def page_links(rows: Sequence[RequestRow], here: str, following: str | None) -> list[WebLink]:
    """Where a list of jobs is, and where it goes on."""
    links = [WebLink(href=here, rel="self", title="These jobs")]
    return [*links, WebLink(href=following, rel="next", title="Older jobs")] if rows and following else links


def results(row: RequestRow) -> Results:
    """What a successful job came to."""
    return Results.model_validate(
        {
            "asset_id": row.asset_id,
            "version": row.ordinal,
            "revision": row.revision,
            "approval": row.approval,
            "clearance": row.clearance,
            "outputs": {"value": row.outputs or {}},
        }
    )
