"""What a database holds after years of work, made in seconds or minutes, for measurements of growth.

A request came every minute, so that a window of time holds as much however many there are. Ten requests make an asset:
eight versions, of which two were sent twice. All of it is over, but for a number that is always the same: what waits,
what works, what is to be reviewed. One platform is rare: it has no more than ten requests.
"""

from collections.abc import Sequence

import psycopg

BATCH = 100_000
PER_ASSET = 10
# How each of the past requests went: its asset `a`, how manieth of that asset `k`, and from these all else.
# As `rules.identity` has it.
ASSET_ID = """left(encode(sha256(convert_to(
        platform_id || '|{"dataset_id": "past", "resource_id": "' || a || '"}', 'UTF8')), 'hex'), 32)"""
PAST = """
create temporary table past on commit drop as
select n, a, k, platform_id, {asset_id} as asset_id, md5('request ' || n)::uuid as request_id,
    md5('run ' || n)::uuid as run_id, md5('flow run ' || n)::uuid as flow_run_id,
    case when k < 8 then k else k - 2 end as ordinal, case when k < 8 then 1 else 2 end as revision,
    case when a %% 7 = 3 then 'vector' else 'raster' end as data_type,
    case when a < 10 then 'completed' when k not in (6, 7) and n %% 9 = 0 then 'failed'
        when n %% 211 = 0 then 'cancelled' else 'completed' end as status,
    case when k in (6, 7) then 'pending_review' when a >= 10 and n %% 11 = 0 then 'rejected' else 'approved' end
        as decided,
    now() - (%(count)s - n + 1) * interval '1 minute' as at
from (
    select n, a, k, case when a = 0 then 'geonode' when a %% 10 = 1 then 'arcgis' else 'ddh' end as platform_id
    from (select n, n %% (%(count)s / 10) as a, n / (%(count)s / 10) as k
          from generate_series(%(first)s::int, %(last)s::int) n) counted
) numbered;
alter table past add approval text;
update past set approval = case when status = 'completed' then decided else 'pending_review' end;
""".replace("{asset_id}", ASSET_ID)
OF_ASSETS = """
insert into app.assets (asset_id, platform_id, refs, data_type, clearance, created_at)
    select asset_id, platform_id, jsonb_build_object('dataset_id', 'past', 'resource_id', a::text), data_type,
        case when a %% 1000 = 5 then 'ouo' else 'public' end, at from past where k = 0;
insert into app.asset_versions (asset_id, ordinal, label, newest_revision, served_revision, created_at)
    select asset_id, ordinal, 'v' || ordinal, case when k in (6, 7) then 2 else 1 end,
        case when approval = 'approved' then revision when k in (6, 7) then 2 end, at
    from past where revision = 1;
insert into app.revisions (asset_id, ordinal, revision, request_id, fingerprint, approval, processing, decided_at,
                           approved_until, content_hash, created_at{listed})
    select asset_id, ordinal, revision, request_id, asset_id, approval, status,
        case when approval <> 'pending_review' then at + interval '1 hour' end,
        case when approval = 'approved' then now() + interval '1 year' end, md5(n::text), at{is_listed}
    from past;
insert into app.approvals (asset_id, ordinal, revision, reviewer, clearance_level, given_at, expires_at)
    select asset_id, ordinal, revision, 'reviewer', 'public', at, now() + interval '1 year'
    from past where approval = 'approved';
"""
OF_REQUESTS = """
insert into app.requests (request_id, platform_id, client_id, data_type, operation, submitted, fingerprint,
                          idempotency_key, priority, callback_url, status, asset_id, ordinal, revision, created_at,
                          finished_at)
    select request_id, platform_id, platform_id || '-dev', data_type, 'ingest',
        jsonb_build_object('version_label', 'v' || ordinal), md5(n::text), 'key ' || n, 'normal', 'https://partner.test',
        status, asset_id, ordinal, revision, at, at + interval '30 s' from past;
insert into app.runs (run_id, request_id, sequence, workflow_id, version, digest, priority, work_pool, inputs, state,
                      created_at, started_at, finished_at)
    select run_id, request_id, 1, workflow_id, version, digest, 'normal', 'gdal', '{{}}',
        case status when 'completed' then 'completed' when 'failed' then 'failed' else 'cancelled' end,
        at, at + interval '2 s', at + interval '30 s'
    from past, (select * from app.workflow_definitions where workflow_id = 'raster_ingest' limit 1) definition;
insert into app.attempts (run_id, number, token, pool, work_pool, priority, platform_id, workflow_id,
                          state, flow_run_id, run_count, heartbeat_at, created_at, sent_at, started_at,
                          finished_at, disposed_at)
    select run_id, 1, md5('token ' || n), 'light', 'gdal', 'normal', platform_id, 'raster_ingest',
        case status when 'completed' then 'committed' when 'failed' then 'failed' else 'fenced' end, flow_run_id, 1,
        at + interval '20 s', at, at + interval '1 s', at + interval '2 s', at + interval '30 s', at + interval '1 min'
    from past;
insert into app.attempt_flow_runs (flow_run_id, run_id, number, registered_at)
    select flow_run_id, run_id, 1, at + interval '2 s' from past;
insert into app.run_nodes (run_id, position, node_id, type, pool, state, started_at, finished_at)
    select run_id, place, 'node' || place, 'task', 'gdal', 'completed', at, at from past, generate_series(0, 2) place;
insert into app.events (request_id, run_id, kind, at)
    select request_id, run_id, kind, at
    from past, unnest(array['request.accepted', 'run.queued', 'attempt.started', 'run.completed']) kind;
insert into app.artifacts (run_id, asset_id, ordinal, revision, role, zone, name, media_type, sha256, size_bytes,
                           created_at)
    select run_id, asset_id, ordinal, revision, role, 'silver', 'assets/' || asset_id || '/' || n || role, 'image/tiff',
        md5(n || role), 1000, at from past, unnest(array['cog', 'stac_item']) role where status = 'completed';
"""
# Only a quarter of a year of it is kept.
OF_NODES = """
insert into app.node_transitions (run_id, attempt, node_id, before, state, tries, retries, at)
    select run_id, 1, 'node' || place, before, state, 1 + retries, retries, at from past, generate_series(0, 2) place,
        (values ('pending', 'running', 0), ('running', 'running', 1), ('running', 'completed', 0))
            told (before, state, retries)
    where at > now() - interval '90 days' and (retries = 0 or n %% 10 = 0);
insert into app.run_metrics (run_id, memory, name, value)
    select run_id, 1, name, n from past, unnest(array['features', 'tokens']) name where n %% 10 = 0;
"""
OF_WORDS = """
insert into app.callbacks (callback_id, request_id, endpoint_id, status, state, tries, next_at, created_at, finished_at)
    select request_id, request_id, endpoint_id, status, 'delivered', 1, at, at, at
    from past, (select endpoint_id from app.callback_endpoints limit 1) known where n %% 2 = 0;
insert into app.callback_deliveries (callback_id, status_code, duration_ms, at)
    select request_id, 200, 5, at from past where n %% 2 = 0;
insert into app.later_keys (platform_id, idempotency_key, request_id)
    select platform_id, 'later ' || n, request_id from past where n %% 20 = 0;
with said as (
    insert into app.audit (at, actor, role, action, subject)
    select at, 'reviewer', 'reviewer', 'approve', 'asset/' || asset_id || '/version/' || ordinal from past
    where approval = 'approved' order by n returning audit_id
)
insert into app.audit_seals (sequence, audit_id, hash) select audit_id, audit_id, repeat('0', 64) from said;
"""
FIRST = """
insert into app.clients (client_id, role, platform_id, display_name, secret_hash)
    select who, role, platform, who, encode(sha256(('secret-' || who)::bytea), 'hex') from (values
        ('ddh-dev', 'partner', 'ddh'), ('arcgis-dev', 'partner', 'arcgis'), ('geonode-dev', 'partner', 'geonode'),
        ('reviewer', 'reviewer', null), ('operator', 'operator', null), ('worker', 'worker', null),
        ('gateway', 'gateway', null)) known (who, role, platform);
insert into app.console_sessions (session_hash, client_id, form_token, expires_at)
    values (encode(sha256('session'), 'hex'), 'operator', 'form', now() + interval '1 day');
insert into app.callback_endpoints (client_id, url) values ('ddh-dev', 'https://partner.test/');
insert into app.pool_workers (pool, worker) values ('light', 'one'), ('gdal', 'two');
"""
# What is not over: of each kind twenty, of what waits to be sent a hundred; the newest of all.
ALIVE = """
create temporary table alive on commit drop as
select n, md5('asset now ' || n) as asset_id, md5('request now ' || n)::uuid as request_id,
    md5('run now ' || n)::uuid as run_id, md5('flow run now ' || n)::uuid as flow_run_id,
    (array['review', 'started', 'sent', 'over', 'lost'])[1 + n / 20] as how from generate_series(0, 99) n
union all
select n, md5('asset now ' || n), md5('request now ' || n)::uuid, md5('run now ' || n)::uuid, null, 'ready'
from generate_series(100, 199) n;
insert into app.assets (asset_id, platform_id, refs, data_type)
    select asset_id, 'ddh', jsonb_build_object('dataset_id', 'now', 'resource_id', n::text), 'raster' from alive;
insert into app.asset_versions (asset_id, ordinal, label, newest_revision) select asset_id, 0, 'v0', 1 from alive;
insert into app.revisions (asset_id, ordinal, revision, request_id, fingerprint, processing)
    select asset_id, 0, 1, request_id, '', case when how in ('review', 'over') then 'completed' else 'processing' end
    from alive;
insert into app.requests (request_id, platform_id, client_id, data_type, operation, submitted, fingerprint, priority,
                          status, asset_id, ordinal, revision)
    select request_id, 'ddh', 'ddh-dev', 'raster', 'ingest', '{}', '', 'normal',
        case when how in ('review', 'over') then 'completed' else 'processing' end, asset_id, 0, 1 from alive;
insert into app.runs (run_id, request_id, sequence, workflow_id, version, digest, priority, work_pool, inputs, state,
                      started_at)
    select run_id, request_id, 1, workflow_id, version, digest, 'normal', 'gdal', '{}',
        case when how in ('review', 'over') then 'completed' when how = 'ready' then 'pending' else 'running' end,
        case when how <> 'ready' then now() end
    from alive, (select * from app.workflow_definitions where workflow_id = 'raster_ingest' limit 1) definition;
insert into app.run_nodes (run_id, position, node_id, type, pool, state)
    select run_id, place, 'node' || place, 'task', 'gdal', 'pending' from alive, generate_series(0, 2) place;
insert into app.attempts (run_id, number, token, pool, work_pool, priority, platform_id, workflow_id,
                          state, flow_run_id, lease_until, heartbeat_at, sent_at, started_at, finished_at, disposed_at)
    select run_id, 1, md5('token now ' || n), 'light', 'gdal', 'normal', 'ddh', 'raster_ingest',
        case how when 'review' then 'committed' when 'over' then 'committed' when 'lost' then 'fenced' else how end,
        case when how <> 'lost' then flow_run_id end, case when how = 'lost' then now() - interval '1 h' end,
        case when how = 'started' then now() end, now(), case when how = 'started' then now() end,
        case when how in ('review', 'over', 'lost') then now() - interval '1 h' end,
        case when how = 'review' then now() end
    from alive;
insert into app.attempt_flow_runs (flow_run_id, run_id, number)
    select flow_run_id, run_id, 1 from alive where how in ('review', 'over', 'started');
insert into geo.layers (table_name, product, run_id, description)
    select 'v_' || left(md5(n::text), 24), 'product ' || n, md5('run ' || n)::uuid::text, '{}'
    from alive where how = 'review';
insert into app.callbacks (callback_id, request_id, endpoint_id, status, next_at)
    select request_id, request_id, endpoint_id, 'completed', now() - interval '1 h'
    from alive, (select endpoint_id from app.callback_endpoints limit 1) known where how = 'review';
"""
# Made after the rows, as they are quicker then; what keys stand on stays.
INDEXES = """
select relname, pg_get_indexdef(indexrelid) from pg_index join pg_class on pg_class.oid = indexrelid
where relnamespace = 'app'::regnamespace and not exists (select from pg_constraint where conindid = indexrelid)
"""


def fill(url: str, count: int) -> None:
    """Write this many past requests, the oldest first, then open ones. The domain has published before."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("set session_replication_role = replica")  # no key is looked up: all of it fits
        connection.execute("set synchronous_commit = off")
        connection.execute("set maintenance_work_mem = '512MB'")
        _execute(connection, FIRST)
        indexes = connection.execute(INDEXES).fetchall()
        for name, _ in indexes:
            connection.execute(f"drop index app.{name}".encode())
        for first in range(0, count, BATCH):
            values = {"first": first, "last": min(first + BATCH, count) - 1, "count": count}
            _execute(connection, PAST + _of_past(connection), values)
        for _, made in indexes:
            connection.execute(made.encode())
        _execute(connection, ALIVE)
    known(url)


def known(url: str) -> None:
    """Let the planner know what is there, as autovacuum would within its minute."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("vacuum analyze")


def sizes(url: str, tables: Sequence[str] = ("requests", "assets", "events")) -> dict[str, int]:
    """How many rows these tables have; and how many bytes the whole database."""
    with psycopg.connect(url) as connection:
        counts = ", ".join(f"(select count(*) from app.{name})" for name in tables)  # noqa: S608 - our own names
        query = f"select {counts}, pg_database_size(current_database())"
        row = connection.execute(query.encode()).fetchone() or ()
    return dict(zip((*tables, "bytes"), row, strict=True))


def _of_past(connection: psycopg.Connection) -> str:
    """The rows of what is past. Those who measure an older release have no column that says what lists show."""
    column = "select 1 from information_schema.columns where table_schema = 'app' and column_name = 'is_listed'"
    has_it = connection.execute(column).fetchone() is not None
    listed = {"listed": ", is_listed", "is_listed": ", not (revision = 1 and k in (6, 7))"} if has_it else {}
    of_nodes = OF_NODES if _has_history(connection) else ""
    return (OF_ASSETS + OF_REQUESTS + of_nodes + OF_WORDS).format_map({"listed": "", "is_listed": ""} | listed)


def _has_history(connection: psycopg.Connection) -> bool:
    """Whether this release keeps what happened to nodes."""
    return connection.execute("select to_regclass('app.run_metrics') is not null").fetchone() == (True,)


def _execute(connection: psycopg.Connection, script: str, values: dict[str, int] | None = None) -> None:
    """Each statement of the script, in one transaction."""
    filled = script
    for name, value in (values or {}).items():
        filled = filled.replace(f"%({name})s", str(value))
    with connection.transaction():
        for statement in filled.replace("%%", "%").split(";"):
            if statement.strip():
                connection.execute(statement.encode())
