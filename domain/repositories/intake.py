"""Writes an accepted submission: version, request, revision, run, nodes, attempt and trail in one statement.

The same rows could be added one by one; each trip to the database costs as much as all the rest of accepting.
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from psycopg.errors import UniqueViolation
from sqlalchemy.ext.asyncio import AsyncSession

from domain.after_commit import after_commit
from domain.contracts.submissions import SubmissionCreate
from domain.db import driver

# Foreign keys are checked at the end of the statement, so its parts may come in any order.
REQUEST = """
    with version as (
        insert into app.asset_versions (asset_id, ordinal, label, newest_revision)
        select %(asset_id)s, %(ordinal)s, %(label)s, %(revision)s where %(revision)s = 1
    ), revision as (
        insert into app.revisions (asset_id, ordinal, revision, request_id, fingerprint)
        values (%(asset_id)s, %(ordinal)s, %(revision)s, %(request_id)s, %(fingerprint)s)
    ), request as (
        insert into app.requests (
            request_id, platform_id, client_id, data_type, operation, submitted,
            fingerprint, idempotency_key, priority, callback_url, asset_id, ordinal,
            revision
        ) values (
            %(request_id)s, %(platform_id)s, %(client_id)s, %(data_type)s, %(operation)s, %(submitted)s,
            %(fingerprint)s, %(idempotency_key)s, %(priority)s, %(callback_url)s, %(asset_id)s, %(ordinal)s,
            %(revision)s
        )
    )
"""
ACCEPTED = """
    (%(request_id)s, cast(null as uuid), 'request.accepted', %(client_id)s,
        jsonb_build_object('revision', %(revision)s))"""
QUEUED = """
    (%(request_id)s, %(run_id)s, 'run.queued', null, jsonb_build_object('workflow', %(workflow_id)s))"""
REQUEST_ID = "pk_requests"
EVENTS = "insert into app.events (request_id, run_id, kind, actor, details) values"
WITHOUT_RUN = f"{REQUEST} {EVENTS} {ACCEPTED}"
WITH_RUN = f"""{REQUEST}, run as (
        insert into app.runs (
            run_id, request_id, sequence, workflow_id, version, digest, pins, priority, pool, work_pool, inputs
        ) values (%(run_id)s, %(request_id)s, 1, %(workflow_id)s, %(version)s, %(digest)s, %(pins)s, %(run_priority)s,
            %(pool)s, %(work_pool)s, %(inputs)s)
    ), nodes as (
        insert into app.run_nodes (run_id, position, node_id, type, handler, pool)
        select %(run_id)s, position - 1, node ->> 0, node ->> 1, node ->> 2, node ->> 3
        from jsonb_array_elements(cast(%(nodes)s as jsonb)) with ordinality as listed (node, position)
    ), attempt as (
        insert into app.attempts (run_id, number, token, pool, work_pool, priority, platform_id, workflow_id)
        values (%(run_id)s, 1, %(token)s, %(pool)s, %(work_pool)s, %(run_priority)s, %(platform_id)s, %(workflow_id)s)
    )
    {EVENTS} {ACCEPTED}, {QUEUED}
"""  # noqa: S608 - the parts are the constants above


@dataclass(frozen=True)
class Accepted:
    """A submission, its place (revision 1 brings a new version with it) and the priority that its platform may have."""

    submission: SubmissionCreate
    fingerprint: str
    asset_id: str
    ordinal: int
    revision: int
    priority: str


@dataclass(frozen=True)
class FirstRun:
    """The run that a submission begins with. Nodes are (id, type, handler, pool) in their order."""

    workflow_id: str
    version: str
    digest: str
    pins: Mapping[str, Mapping[str, str]]
    pool: str
    work_pool: str
    priority: str
    inputs: dict[str, Any]
    nodes: Sequence[tuple[str, str, str | None, str | None]]


@dataclass(frozen=True)
class Intake:
    session: AsyncSession

    async def write(self, accepted: Accepted, run: FirstRun | None) -> bool:
        """All rows of the submission, with its run and an attempt for the relays, or without a run.

        False where its id is taken: submissions about different assets share no lock, so two may bring one id at once.
        Nothing else can be done in this transaction then.
        """
        await self.session.flush()  # what was changed to make room for it
        statement, run_values = (WITHOUT_RUN, {}) if run is None else (WITH_RUN, _run(run, uuid4()))
        try:
            await (await driver(self.session)).execute(statement, _request(accepted) | run_values)
        except UniqueViolation as error:
            if error.diag.constraint_name == REQUEST_ID:
                return False
            raise
        if run is not None:
            after_commit(self.session).has_work = True
        return True


def _request(accepted: Accepted) -> dict[str, Any]:
    submission = accepted.submission
    same = ("request_id", "platform_id", "client_id", "data_type", "operation", "callback_url")
    return {name: getattr(submission, name) for name in (*same, "idempotency_key")} | {
        "priority": accepted.priority,
        "submitted": submission.model_dump_json(),
        "label": submission.version_label,
        "fingerprint": accepted.fingerprint,
        "asset_id": accepted.asset_id,
        "ordinal": accepted.ordinal,
        "revision": accepted.revision,
    }


def _run(run: FirstRun, run_id: UUID) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "workflow_id": run.workflow_id,
        "version": run.version,
        "digest": run.digest,
        "pins": json.dumps(run.pins),
        "pool": run.pool,
        "work_pool": run.work_pool,
        "run_priority": run.priority,
        "inputs": json.dumps(run.inputs),
        "nodes": json.dumps(run.nodes),
        "token": secrets.token_urlsafe(32),
    }
