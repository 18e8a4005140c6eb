"""A presigned address gives access to its file: it is shown without what does, wherever staff read."""

import json
from typing import Any

import httpx
import psycopg

from tests.support.acts import call
from tests.support.console import Assembly
from tests.support.signing_in import at_the_console

CANARY = "xCANARYx"
PLAIN = "https://files.example.org/dem.tif"
SIGNED = f"https://me:{CANARY}@files.example.org/dem.tif?sv=1&sig={CANARY}#{CANARY}"
STORE = """
    update app.requests set submitted = jsonb_set(submitted, '{{source}}', {0}), callback_url = %(signed)s,
        problem = {1}, result = {1}, plan = {1} where asset_id = %(asset_id)s;
    update app.runs set inputs = inputs || jsonb_build_object('source', {0}), outputs = {1}, problem = {1}
        where request_id = %(request_id)s;
    update app.run_nodes set message = %(signed)s, problem = {1} where run_id = %(run_id)s;
    update app.attempts set problem = {1} where run_id = %(run_id)s;
    update app.revisions set outputs = outputs || {1} where asset_id = %(asset_id)s;
    insert into app.events (request_id, run_id, kind, details) values (%(request_id)s, %(run_id)s, 'run.failed', {1})
"""


def _store(assembly: Assembly, asset_id: str) -> dict[str, Any]:
    """Have everything that is stored about the version name the address."""
    query = "select request_id, run_id from app.requests join app.runs using (request_id) where asset_id = %s"
    [(request_id, run_id)] = assembly.domain.rows(query, asset_id)
    told = "jsonb_build_object('message', 'It is ' || %(signed)s, 'validation', jsonb_build_object('driver', {0}))"
    names = {"asset_id": asset_id, "request_id": str(request_id), "run_id": str(run_id), "signed": SIGNED}
    text = "to_jsonb(%(signed)s::text)"
    with psycopg.connect(assembly.domain.database.url()) as connection:
        for command in STORE.split(";"):
            assert connection.execute(command.format(text, told.format(text)).encode(), names).rowcount, command
    [(item,)] = assembly.domain.rows(
        "select name from app.artifacts where asset_id = %s and role = 'stac_item'", asset_id
    )
    silver = assembly.domain.service.zones.silver
    content = json.loads(silver.read_bytes(item))
    content["links"] = [{"rel": "derived_from", "href": f"cairn://bronze/{SIGNED}"}]
    silver.write_bytes(item, json.dumps(content).encode())
    return names


async def _pages(assembly: Assembly, asset_id: str) -> dict[str, str]:
    paths = ["/", "/?show=all", "/assets", f"/assets/{asset_id}", f"/versions/{asset_id}/0", "/audit", "/callbacks"]
    paths += [f"/versions/{asset_id}/0/footprint/1", "/platforms"]
    async with at_the_console(assembly, "admin") as http:
        return {path: _text(await http.get(f"/console{path}")) for path in paths}


async def _records(assembly: Assembly, names: dict[str, Any]) -> dict[str, str]:
    asset, request, run = (f"/{kind}s/{names[f'{kind}_id']}" for kind in ("asset", "request", "run"))
    paths = [
        request,
        f"{request}/timeline",
        run,
        "/runs",
        asset,
        f"{asset}/versions/0",
        f"{asset}/versions/0/revisions",
    ]
    return {path: _text(await call(assembly.domain, "operator", "GET", path)) for path in paths}


def _text(answer: httpx.Response) -> str:
    assert answer.status_code == 200, (answer.url, answer.text)
    return answer.text


async def test_a_presigned_source_is_shown_without_its_signature(assembly: Assembly) -> None:
    asset_id = await assembly.processed("signed", "up/signed.tif", 31, dataset_id="signed")
    names = _store(assembly, asset_id)
    shown = await _pages(assembly, asset_id) | await _records(assembly, names)
    assert [place for place, text in shown.items() if CANARY in text] == []
    assert shown[f"/versions/{asset_id}/0"].count(PLAIN) >= 4  # source, provenance, report, as submitted
    assert all(PLAIN in shown[f"/{kind}s/{names[f'{kind}_id']}"] for kind in ("request", "run"))
    assert PLAIN in shown[f"/requests/{names['request_id']}/timeline"]


async def test_flow_run_is_given_a_presigned_source_with_its_signature(assembly: Assembly) -> None:
    asset_id = await assembly.submit("given", "up/given.tif", dataset_id="given")
    query = "update app.runs set inputs = inputs || jsonb_build_object('source', %s::text) where request_id ="
    query += " (select request_id from app.requests where asset_id = %s) returning 1"
    assert assembly.domain.rows(query, SIGNED, asset_id)
    _, order = await assembly.started()
    assert order["inputs"]["source"] == SIGNED
