"""What the gateway reads, row by row: views that row-level security holds to one platform; credentials; mappings."""

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

READER = "(select current_setting('app.platform_id', true))"
GUARDED = ("requests", "assets")
# Columns that the views' owner may read. Of runs and nodes it needs no inputs, of clients nothing.
READ_BY_VIEWS = {
    "requests": "*",
    "assets": "*",
    "asset_versions": "*",
    "revisions": "*",
    "runs": "run_id, request_id, workflow_id, version, priority, pool, state, reason, problem, created_at,"
    " started_at, finished_at",
    "run_nodes": "*",
    "attempts": "run_id, number, state, flow_run_id",
    "attempt_flow_runs": "run_id, number, flow_run_id, segment, pool",
    "events": "*",
}

CLIENTS = {
    "scopes": "text[] not null default '{}'",
    "key_prefix": "text",
    "key_days": "integer",
    "key_until": "timestamptz",
    "last_used_at": "timestamptz",
}

IDENTITIES_BEFORE = """
create view api.identities as
select secret_hash, client_id, role, platform_id, is_active
from app.clients
union all
select previous_secret_hash, client_id, role, platform_id, is_active
from app.clients
where previous_until > now()
"""

# Before this, keys had no end: what has ended must not work again.
NO_END = """
update app.clients set is_active = false, revoked_at = coalesce(revoked_at, now()), previous_until = null
where key_until <= now()
"""

# A key whose time is over is no key; its client may still come with a token.
IDENTITIES = """
create or replace view api.identities as
select secret_hash, client_id, role, platform_id, is_active, scopes
from app.clients
where key_until is null or key_until > now()
union all
select null, client_id, role, platform_id, is_active, scopes
from app.clients
where key_until <= now()
union all
select previous_secret_hash, client_id, role, platform_id, is_active, scopes
from app.clients
where previous_until > now()
"""

PROGRESS = """
left join lateral (
    select count(*)::int as total,
           (count(*) filter (where n.state in ('completed', 'skipped')))::int as done,
           sum(case when n.state in ('completed', 'skipped') then 1
                    when n.items_total > 0 then (n.items_done + n.items_failed)::float / n.items_total
                    else coalesce(n.fraction, 0) end) as fraction{more}
    from app.runs run
    join app.run_nodes n on n.run_id = run.run_id
    where run.request_id = r.request_id
) nodes on true
"""

REQUESTS_BEFORE = f"""
create view api.requests as
select r.request_id, r.platform_id, r.client_id, r.status, r.data_type, r.operation, r.priority,
       r.created_at, r.finished_at, r.problem, r.result as outputs,
       r.asset_id, r.ordinal, r.revision, v.label as version_label,
       a.clearance, rev.approval,
       coalesce(nodes.total, 0) as nodes_total, coalesce(nodes.done, 0) as nodes_done,
       coalesce(nodes.fraction, 0) as fraction
from app.requests r
left join app.assets a on a.asset_id = r.asset_id
left join app.asset_versions v on v.asset_id = r.asset_id and v.ordinal = r.ordinal
left join app.revisions rev on rev.asset_id = r.asset_id and rev.ordinal = r.ordinal and rev.revision = r.revision
{PROGRESS.format(more="")}
where not r.is_internal
"""

# What a partner may know of a request. Runs, nodes and attempts appear as counts only.
REQUESTS = f"""
create view api.requests as
select r.request_id, r.platform_id, r.client_id, r.status, r.data_type, r.operation, r.priority,
       r.created_at, nodes.started_at, r.finished_at, r.problem, r.result as outputs,
       r.asset_id, a.refs, r.ordinal, r.revision, v.label as version_label, v.served_revision,
       a.clearance, rev.approval, a.deleted_at is not null or v.deleted_at is not null as is_deleted,
       coalesce(nodes.total, 0) as nodes_total, coalesce(nodes.done, 0) as nodes_done,
       coalesce(nodes.items_total, 0) as items_total, coalesce(nodes.items_done, 0) as items_done,
       coalesce(nodes.fraction, 0) as fraction
from app.requests r
left join app.assets a on a.asset_id = r.asset_id
left join app.asset_versions v on v.asset_id = r.asset_id and v.ordinal = r.ordinal
left join app.revisions rev on rev.asset_id = r.asset_id and rev.ordinal = r.ordinal and rev.revision = r.revision
{
    PROGRESS.format(
        more=''',
           sum(n.items_total)::bigint as items_total, sum(n.items_done + n.items_failed)::bigint as items_done,
           min(run.started_at) as started_at'''
    )
}
where not r.is_internal
"""

ASSETS = """
create view api.assets as
select a.asset_id, a.platform_id, a.refs, a.data_type, a.clearance, a.cleared_at, a.made_public_at, a.exposure,
       a.created_at, a.lock_version,
       (select max(v.ordinal) from app.asset_versions v
        where v.asset_id = a.asset_id and v.served_revision is not null and v.deleted_at is null) as latest_ordinal
from app.assets a
where a.deleted_at is null
"""

VERSIONS = """
create view api.asset_versions as
select v.asset_id, a.platform_id, v.ordinal, v.label, v.served_revision, rev.revision, rev.request_id, rev.approval,
       rev.processing, rev.decided_at, rev.reason, rev.content_hash, v.created_at, v.lock_version
from app.assets a
join app.asset_versions v on v.asset_id = a.asset_id and v.deleted_at is null
join app.revisions rev on rev.asset_id = v.asset_id and rev.ordinal = v.ordinal and rev.revision = v.newest_revision
where a.deleted_at is null
"""

# For operators, who read every platform: what partners' paths call a job is a run.
JOBS = """
create view api.jobs as
select run.run_id, run.request_id, r.platform_id, r.asset_id, r.is_internal, run.workflow_id, run.version, run.priority,
       run.pool, run.state, run.reason, run.problem, run.created_at, run.started_at, run.finished_at,
       newest.number as attempt, newest.flow_run_id
from app.requests r
join app.runs run on run.request_id = r.request_id
left join lateral (
    select t.number, t.flow_run_id from app.attempts t where t.run_id = run.run_id order by t.number desc limit 1
) newest on true
"""

JOB_NODES = """
create view api.job_nodes as
select n.run_id, n.position, n.node_id, n.type, n.handler, n.pool, n.state, n.tries, n.fraction, n.message,
       n.items_total, n.items_done, n.items_failed, n.problem, n.started_at, n.finished_at
from app.requests r
join app.runs run on run.request_id = r.request_id
join app.run_nodes n on n.run_id = run.run_id
"""

JOB_EVENTS = """
create view api.job_events as
select e.event_id, run.run_id, e.request_id, e.kind, e.actor, e.details, e.at
from app.requests r
join app.runs run on run.request_id = r.request_id
join app.events e on e.request_id = r.request_id and (e.run_id = run.run_id or e.run_id is null)
"""

FLOW_RUNS = """
create view api.flow_runs as
select worked.flow_run_id, worked.run_id, worked.number as attempt, t.state as attempt_state, worked.segment,
       worked.pool, run.request_id
from app.requests r
join app.runs run on run.request_id = r.request_id
join (
    select flow_run_id, run_id, number, segment, pool from app.attempt_flow_runs
    union
    select t.flow_run_id, t.run_id, t.number, null, run.pool
    from app.attempts t join app.runs run on run.run_id = t.run_id
    where t.flow_run_id is not null
        and not exists (select from app.attempt_flow_runs f where f.flow_run_id = t.flow_run_id)
) worked on worked.run_id = run.run_id
join app.attempts t on t.run_id = worked.run_id and t.number = worked.number
"""

VIEWS = {
    "requests": REQUESTS,
    "assets": ASSETS,
    "asset_versions": VERSIONS,
    "jobs": JOBS,
    "job_nodes": JOB_NODES,
    "job_events": JOB_EVENTS,
    "flow_runs": FLOW_RUNS,
}

# Mappings were names and had no effect; they are rules now.
FORGET_NAMES = """
update app.platforms set field_mapping = '{}'
where exists (select from jsonb_each(field_mapping) where jsonb_typeof(value) <> 'object')
"""

MAPPINGS = {
    "arcgis": '{"data_type": {"infer": true}, "operation": {"default": "ingest"}}',
    "geonode": '{"data_type": {"infer": true}, "operation": {"default": "ingest"}}',
}

# PostgreSQL lets everybody call these, whatever they may write: functions that make and change large objects, and
# advisory locks, by which somebody could keep the service waiting. Of ours only the service takes locks.
WRITING = "^(lo_(creat|create|from_bytea|put|truncate|truncate64|unlink)|lowrite)$"
LOCKING = "^pg_(try_)?advisory_(xact_)?lock(_shared)?$"

# Where the server is somebody else's, its functions may be as well: it goes on without, and says so.
RIGHTS_TO_CALL = """
do $$ declare called record; begin
    for called in select oid::regprocedure as name, proname ~ '{locking}' as locks from pg_proc
        where pronamespace = 'pg_catalog'::regnamespace and proname ~ '{writing}|{locking}'
    loop {rights} end loop;
exception when insufficient_privilege then
    raise warning 'large objects and advisory locks stay open to every role: %', sqlerrm;
end $$
"""
CLOSE = """
        execute format('revoke execute on function %s from public', called.name);
        if called.locks then execute format('grant execute on function %s to cairn_app', called.name); end if;
"""
OPEN = """
        if called.locks then execute format('revoke execute on function %s from cairn_app', called.name); end if;
        execute format('grant execute on function %s to public', called.name);
"""


def rights_to_call(rights: str) -> str:
    """The order that closes these functions, or opens them again."""
    return RIGHTS_TO_CALL.format(writing=WRITING, locking=LOCKING, rights=rights)


def _guard(table: str) -> None:
    """Whoever reads through the views sees one platform's rows; the service and the schema's owner see all."""
    internal = " and not is_internal" if table == "requests" else ""
    op.execute(f"alter table app.{table} enable row level security")
    op.execute(f"alter table app.{table} force row level security")
    op.execute(f"create policy everything on app.{table} to cairn_app, current_user using (true) with check (true)")
    op.execute(
        f"create policy of_the_reader on app.{table} for select to cairn_views"
        f" using ((platform_id = {READER}{internal}) or {READER} = '*')"
    )


def upgrade() -> None:
    for name, kind in CLIENTS.items():
        op.execute(f"alter table app.clients add column {name} {kind}")
    op.execute(IDENTITIES)
    op.execute(
        "do $$ begin if not exists (select from pg_roles where rolname = 'cairn_views') "
        "then create role cairn_views nologin; end if; end $$"
    )
    op.execute("grant cairn_views to current_user")
    op.execute("grant usage, create on schema api to cairn_views")
    for table, columns in READ_BY_VIEWS.items():
        op.execute(f"grant select{'' if columns == '*' else f' ({columns})'} on app.{table} to cairn_views")
    for table in GUARDED:
        _guard(table)
    op.execute("drop view api.requests")
    for name, view in VIEWS.items():
        op.execute(view)
        op.execute(f"alter view api.{name} owner to cairn_views")
        op.execute(f"grant select on api.{name} to cairn_gateway")
    op.execute("revoke create on schema api from cairn_views")
    op.create_index("ix_assets_of_platform", "assets", ["platform_id", "asset_id"], schema="app")
    op.execute(rights_to_call(CLOSE))
    op.execute(FORGET_NAMES)
    for platform, mapping in MAPPINGS.items():
        op.execute(
            f"update app.platforms set field_mapping = '{mapping}'"
            f" where platform_id = '{platform}' and field_mapping = '{{}}'"
        )


def downgrade() -> None:
    op.execute(rights_to_call(OPEN))
    op.drop_index("ix_assets_of_platform", table_name="assets", schema="app")
    for platform in MAPPINGS:
        op.execute(f"update app.platforms set field_mapping = '{{}}' where platform_id = '{platform}'")
    for name in reversed(VIEWS):
        op.execute(f"drop view api.{name}")
    for table in GUARDED:
        op.execute(f"drop policy of_the_reader on app.{table}")
        op.execute(f"drop policy everything on app.{table}")
        op.execute(f"alter table app.{table} no force row level security")
        op.execute(f"alter table app.{table} disable row level security")
    op.execute(REQUESTS_BEFORE)
    op.execute("grant select on api.requests to cairn_gateway, cairn_app")
    for table, columns in READ_BY_VIEWS.items():
        op.execute(f"revoke select{'' if columns == '*' else f' ({columns})'} on app.{table} from cairn_views")
    op.execute("revoke all on schema api from cairn_views")
    op.execute(NO_END)
    op.execute("drop view api.identities")
    op.execute(IDENTITIES_BEFORE)
    op.execute("grant select on api.identities to cairn_gateway, cairn_serving, cairn_app")
    for name in CLIENTS:
        op.drop_column("clients", name, schema="app")
