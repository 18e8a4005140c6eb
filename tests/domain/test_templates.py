"""What would be a template to Prefect is refused, or is a partner's text that Prefect never gets to see.

Prefect hydrates parameters: an object with `__prefect_kind` is replaced by what it names, a template is filled in. So
nothing of a submission may reach a flow run's parameters, name or tags.
"""

import json
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import UUID, uuid4

import pytest

from domain.adapters.prefect_runs import NewFlowRun, PrefectRuns
from domain.loops.relay import Relay
from domain.shared.database_address import DatabaseAddress
from tests.support.acts import Flow, call, keep_words, submit
from tests.support.platform import Domain

KINDS: tuple[dict[str, Any], ...] = (
    {"__prefect_kind": "workspace_variable", "variable_name": "cairn-worker-token"},
    {"__prefect_kind": "json", "value": '{"run_id": "another"}'},
    {"__prefect_kind": "jinja", "template": "{{ prefect.variables.token }}"},
    {"__prefect_kind": "none", "value": {"__prefect_kind": "json", "value": "1"}},
)
TEXTS = (
    *(json.dumps(kind) for kind in KINDS),
    "{{ prefect.blocks.secret.cairn-worker-token }}",
    "{{ ''.__class__.__mro__ }}",
    "{% raw %}x{% endraw %}",
    "${{ inputs.token }}",
)


@dataclass
class Recorder(PrefectRuns):
    """Stands in for Prefect's server, of which only matters what it is asked to make."""

    _client: Any = None
    made: dict[UUID, dict[str, Any]] = field(default_factory=dict)

    async def create(self, deployment: str, wanted: NewFlowRun) -> UUID:
        flow_run_id = uuid4()
        self.made[flow_run_id] = {"deployment": deployment, **asdict(wanted)}
        return flow_run_id


async def sent(domain: Domain) -> tuple[dict[str, Any], Flow]:
    """What the relay asks Prefect for, for the one attempt that is due; and the flow run that would be made."""
    prefect = Recorder()
    relay = Relay(domain.service.database, DatabaseAddress(domain.database.url("cairn_app")), poll_seconds=1)
    assert len((await relay.send_due(prefect)).dispatches) == 1
    [(flow_run_id, made)] = prefect.made.items()
    given = made["parameters"]
    return made, Flow(domain, UUID(given["run_id"]), given["attempt_token"], flow_run_id)


def refs(text: str) -> dict[str, str]:
    return {"dataset_id": text, "resource_id": "dem"}


@pytest.mark.parametrize("text", TEXTS)
async def test_text_of_a_submission_bypasses_prefect_unchanged(domain: Domain, text: str) -> None:
    accepted = await submit(
        domain, refs=refs(text), version_label=text, data_type="vector", source="up/a.gpkg", parameters={"layer": text},
        idempotency_key=text,
    )  # fmt: skip
    assert accepted.status_code == 202, accepted.text
    made, flow = await sent(domain)
    [(run_id, token)] = domain.rows("select run_id::text, token from app.attempts")
    assert made["parameters"] == {"run_id": run_id, "attempt_token": token}
    told = json.dumps(made)
    assert [mark for mark in ("__prefect", "{{", "{%", "${") if mark in told] == []
    order = (await flow.start()).json()
    assert order["inputs"]["layer"] == text
    assert (order["facts"]["version_label"], order["facts"]["refs"]) == (text, refs(text))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind["__prefect_kind"])
@pytest.mark.parametrize(
    "place",
    [
        lambda kind: {"parameters": kind},
        lambda kind: {"parameters": {"target_crs": kind}},
        lambda kind: {"parameters": {"compression": [kind]}},
        lambda kind: {"refs": kind},
        lambda kind: {"refs": {"dataset_id": kind, "resource_id": "dem"}},
        lambda kind: {"version_label": kind},
        lambda kind: {"source": kind},
        lambda kind: {"source": json.dumps(kind)},
        lambda kind: {"operation": json.dumps(kind)},
        lambda kind: {"metadata": kind},
    ],
    ids=["parameters", "parameter", "list", "refs", "ref", "label", "source", "source text", "operation", "metadata"],
)
async def test_object_in_place_of_text_in_a_submission_is_refused(domain: Domain, kind: Any, place: Any) -> None:
    refused = await submit(domain, **place(kind))
    assert refused.status_code == 422, refused.text
    assert domain.rows("select count(*) from app.runs") == [(0,)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind["__prefect_kind"])
async def test_object_given_as_an_input_never_reaches_prefect(domain: Domain, kind: dict[str, Any]) -> None:
    body = {"workflow_id": "create_stac_item", "inputs": {"product": kind, "source": "x", "source_sha256": "0" * 64}}
    made_run = await call(domain, "operator", "POST", "/runs", body)
    assert made_run.status_code < 300, made_run.text
    made, flow = await sent(domain)
    assert made["parameters"].keys() == {"run_id", "attempt_token"}
    assert "__prefect" not in json.dumps(made)
    assert (await flow.start()).json()["inputs"]["product"] == kind


@pytest.mark.parametrize("text", TEXTS)
async def test_object_in_place_of_text_in_metadata_is_refused(domain: Domain, text: str) -> None:
    request_id = (await submit(domain)).json()["request_id"]
    [(asset_id,)] = domain.rows("select asset_id from app.requests where request_id = %s", request_id)
    path = f"/assets/{asset_id}/metadata"
    assert (await keep_words(domain, asset_id, {"title": KINDS[0]})).status_code == 422
    words = {"title": text, "description": text, "keywords": [text[:100]], "attribution": text}
    assert (await keep_words(domain, asset_id, words)).status_code == 200
    kept = (await call(domain, "reviewer", "GET", path)).json()
    assert text in json.dumps(kept, ensure_ascii=False).replace('\\"', '"').replace("\\\\", "\\")
