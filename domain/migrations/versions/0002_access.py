"""Who may touch what: roles, their grants, the read-only views of schema `api`, the platforms known from the start."""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

ROLES = ("cairn_app", "cairn_gateway", "cairn_serving")

IDENTITIES = """
create view api.identities as
select secret_hash, client_id, role, platform_id, is_active
from app.clients
"""

PLATFORMS = """
create view api.platforms as
select platform_id, display_name, required_refs, optional_refs, version_ref, field_mapping
from app.platforms
where is_active
"""

# What a partner may know of a request. Runs, nodes and attempts appear as counts only.
REQUESTS = """
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
left join lateral (
    select count(*)::int as total,
           (count(*) filter (where n.state in ('completed', 'skipped')))::int as done,
           sum(case when n.state in ('completed', 'skipped') then 1
                    when n.items_total > 0 then (n.items_done + n.items_failed)::float / n.items_total
                    else coalesce(n.fraction, 0) end) as fraction
    from app.runs run
    join app.run_nodes n on n.run_id = run.run_id
    where run.request_id = r.request_id
) nodes on true
where not r.is_internal
"""

# One row per served revision: approved, and neither its version nor its asset deleted.
SERVED_PRODUCTS = """
create view api.served_products as
select a.asset_id, a.platform_id, v.ordinal, rev.revision, a.clearance, rev.approval, a.exposure,
       v.ordinal = max(v.ordinal) over (partition by a.asset_id) as is_latest,
       cog.name as cog_name, cog.sha256 as cog_sha256, cog.size_bytes as cog_size_bytes,
       rev.outputs -> 'bands' as bands, rev.outputs -> 'bounds' as bounds_wgs84
from app.assets a
join app.asset_versions v on v.asset_id = a.asset_id and v.deleted_at is null
join app.revisions rev on rev.asset_id = v.asset_id and rev.ordinal = v.ordinal and rev.revision = v.served_revision
join app.artifacts cog on cog.asset_id = rev.asset_id and cog.ordinal = rev.ordinal
                      and cog.revision = rev.revision and cog.role = 'cog'
where a.deleted_at is null and rev.approval = 'approved'
"""

GRANTS = """
grant usage on schema app to cairn_app;
grant select, insert, update, delete on all tables in schema app to cairn_app;
revoke delete, update on app.events from cairn_app;
revoke insert, update, delete on app.alembic_version from cairn_app;
grant usage, select on all sequences in schema app to cairn_app;
grant pgstac_ingest to cairn_app;
grant usage on schema api to cairn_app, cairn_gateway, cairn_serving;
grant select on api.identities, api.platforms, api.requests to cairn_gateway;
grant select on api.identities, api.served_products to cairn_serving;
grant select on all tables in schema api to cairn_app;
grant pgstac_read to cairn_serving;
alter role cairn_gateway set default_transaction_read_only = on;
alter role cairn_gateway set statement_timeout = '2s';
alter role cairn_serving set default_transaction_read_only = on;
alter role cairn_serving set statement_timeout = '10s';
"""

SEEDS = """
insert into app.platforms (platform_id, display_name, required_refs, optional_refs, version_ref) values
    ('ddh', 'Data Development Hub', '{dataset_id,resource_id}', '{}', 'version_id'),
    ('arcgis', 'ArcGIS', '{item_id,layer_index}', '{}', 'version'),
    ('geonode', 'GeoNode', '{uuid}', '{}', 'version')
on conflict do nothing
"""


def upgrade() -> None:
    for role in ROLES:
        op.execute(
            f"do $$ begin if not exists (select from pg_roles where rolname = '{role}') "
            f"then create role {role}; end if; end $$"
        )
    op.execute("create schema if not exists api")
    op.execute("create schema if not exists geo")
    # Temporary tables are a way to write; pgSTAC's own functions need them, nobody else does.
    op.execute("do $$ begin execute format('revoke temporary on database %I from public', current_database()); end $$")
    op.execute(
        "do $$ begin execute format('grant temporary on database %I to pgstac_admin, pgstac_ingest', "
        "current_database()); end $$"
    )
    for view in (IDENTITIES, PLATFORMS, REQUESTS, SERVED_PRODUCTS):
        op.execute(view)
    op.execute(GRANTS)
    op.execute(SEEDS)


def downgrade() -> None:
    op.execute("drop schema api cascade")
    op.execute("drop schema geo")
    op.execute("delete from app.platforms where platform_id in ('ddh', 'arcgis', 'geonode')")
    for role in ROLES:
        op.execute(f"revoke all on all tables in schema app from {role}")
        op.execute(f"revoke all on all sequences in schema app from {role}")
        op.execute(f"revoke all on schema app from {role}")
    op.execute("revoke pgstac_ingest from cairn_app")
    op.execute("revoke pgstac_read from cairn_serving")
