"""Requests of the past: what a database holds after years, made in seconds, for measurements of growth."""

import psycopg

# Completed and approved requests of assets of their own, with all their rows.
HISTORY = """
create temporary table past as
select md5('asset ' || n) as asset_id, gen_random_uuid() as request_id, gen_random_uuid() as run_id, n
from generate_series(%(first)s, %(first)s + %(count)s - 1) n;
insert into app.assets (asset_id, platform_id, refs, data_type)
    select asset_id, 'ddh', jsonb_build_object('dataset_id', 'past', 'resource_id', n::text), 'raster' from past;
insert into app.asset_versions (asset_id, ordinal, label, newest_revision, served_revision)
    select asset_id, 0, '1', 1, 1 from past;
insert into app.revisions (asset_id, ordinal, revision, request_id, fingerprint, approval, processing)
    select asset_id, 0, 1, request_id, asset_id, 'approved', 'completed' from past;
insert into app.requests (request_id, platform_id, client_id, operation, submitted, fingerprint, priority, status,
                          asset_id, ordinal, revision, idempotency_key)
    select request_id, 'ddh', 'ddh-bench', 'ingest', '{}', asset_id, 'normal', 'completed', asset_id, 0, 1, n::text
    from past;
insert into app.runs (run_id, request_id, sequence, workflow_id, version, digest, priority, inputs, state)
    select run_id, request_id, 1, workflow_id, version, digest, 'normal', '{}', 'completed'
    from past, (select * from app.workflow_definitions where workflow_id = 'raster_ingest' limit 1) definition;
insert into app.attempts (run_id, number, token, state, flow_run_id, finished_at, disposed_at)
    select run_id, 1, run_id::text, 'committed', gen_random_uuid(), now(), now() from past;
insert into app.run_nodes (run_id, position, node_id, type, state)
    select run_id, place, 'node' || place, 'task', 'completed' from past, generate_series(0, 4) place;
insert into app.events (request_id, run_id, kind)
    select request_id, run_id, kind from past, unnest(array['request.accepted', 'run.queued', 'run.completed']) kind;
drop table past
"""


def begin_history(url: str, count: int) -> None:
    """Fill a database with this many past requests and nothing else."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("truncate app.assets, app.requests cascade")
    add_history(url, count)


def add_history(url: str, count: int, first: int = 1) -> None:
    """Fill in the past, from a number on that none has yet."""
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in HISTORY.replace("%(count)s", str(count)).replace("%(first)s", str(first)).split(";"):
            connection.execute(statement.encode())
    analyze(url)


def analyze(url: str) -> None:
    """Let the planner know what is there, as autovacuum would within its minute."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("vacuum analyze")
