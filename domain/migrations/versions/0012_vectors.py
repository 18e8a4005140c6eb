"""Vector tables: who loads them, what is known of them, and how serving finds the one that was approved."""

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

# Of a table, the register says which run made it and from which product; whether that counts, its commit decides.
TABLES = """
create table geo.layers (
    table_name text primary key check (table_name ~ '^v_[0-9a-f]{24}$'),
    product text not null unique,
    run_id text not null,
    description jsonb not null,
    is_ready boolean not null default false,
    created_at timestamptz not null default now()
);
create table geo.loaded_chunks (
    table_name text not null references geo.layers on delete cascade,
    chunk integer not null,
    features bigint not null,
    primary key (table_name, chunk)
);
"""

# What nobody will ask for again: of deleted versions at once, of runs that came to nothing after a week, in which they
# may be run again. Told by a function, because the loader may not read whose data it is.
ABANDONED = """
create function geo.abandoned() returns setof text
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select l.table_name from geo.layers l
    where not exists (
        select from app.artifacts f
        left join app.asset_versions v on v.asset_id = f.asset_id and v.ordinal = f.ordinal
        where f.run_id::text = l.run_id and f.name = l.product and v.deleted_at is null
    ) and not exists (
        select from app.runs r
        where r.run_id::text = l.run_id
          and (r.state in ('pending', 'running')
               or (r.state in ('failed', 'cancelled') and r.finished_at > now() - interval '7 days'
                   and not exists (select from app.asset_versions v join app.requests q
                                       on q.asset_id = v.asset_id and q.ordinal = v.ordinal
                                   where q.request_id = r.request_id and v.deleted_at is not null)))
    )
$$
"""

# One row per revision that has a product, or parts that are catalogued instead of it.
# Which of them is approved and latest is for the reader to ask.
PRODUCTS = """
create view {name} as
select a.asset_id, a.platform_id, v.ordinal, rev.revision, a.clearance, rev.approval, a.exposure,
       {is_latest} as is_latest,
       cog.name as cog_name, cog.sha256 as cog_sha256, cog.size_bytes as cog_size_bytes,
       rev.outputs -> 'bands' as bands, rev.outputs -> 'bounds' as bounds_wgs84,
       parquet.name as parquet_name, layer.table_name, layer.description as layer
from app.assets a
join app.asset_versions v on v.asset_id = a.asset_id and v.deleted_at is null
join app.revisions rev on rev.asset_id = v.asset_id and rev.ordinal = v.ordinal and {which}
left join app.artifacts cog on cog.asset_id = rev.asset_id and cog.ordinal = rev.ordinal
                           and cog.revision = rev.revision and cog.role = 'cog'
left join app.artifacts parquet on parquet.asset_id = rev.asset_id and parquet.ordinal = rev.ordinal
                               and parquet.revision = rev.revision and parquet.role = 'geoparquet'
left join geo.layers layer on layer.product = parquet.name and layer.is_ready
where a.deleted_at is null and (cog.name is not null or layer.table_name is not null or exists (
    select from app.artifacts f where f.asset_id = rev.asset_id and f.ordinal = rev.ordinal
        and f.revision = rev.revision and f.role = 'stac_items'))
"""
SERVED = PRODUCTS.format(
    name="api.served_products",
    is_latest="v.ordinal = max(v.ordinal) over (partition by a.asset_id)",
    which="rev.revision = v.served_revision and rev.approval = 'approved'",
)
STAGED = PRODUCTS.format(
    name="api.staged_products",
    is_latest="false",
    which="rev.revision = v.newest_revision and rev.approval = 'pending_review' and rev.processing = 'completed'",
)

GRANTS = """
grant usage, create on schema geo to cairn_loader;
grant select, insert, update, delete on geo.layers, geo.loaded_chunks to cairn_loader;
revoke execute on function geo.abandoned() from public;
grant execute on function geo.abandoned() to cairn_loader;
alter role cairn_loader set search_path = geo, public;
alter role cairn_loader set idle_in_transaction_session_timeout = '10min';
grant usage on schema geo to cairn_serving;
grant select on api.served_products, api.staged_products to cairn_serving;
grant select on api.served_products, api.staged_products to cairn_app;
"""

BEFORE = """
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
where a.deleted_at is null and rev.approval = 'approved';
grant select on api.served_products to cairn_serving, cairn_app;
"""


def upgrade() -> None:
    op.execute(
        "do $$ begin if not exists (select from pg_roles where rolname = 'cairn_loader') "
        "then create role cairn_loader; end if; end $$"
    )
    op.execute("drop view api.served_products")
    for statement in (TABLES, ABANDONED, SERVED, STAGED, GRANTS):
        op.execute(statement)


def downgrade() -> None:
    op.execute("drop view api.staged_products, api.served_products")
    op.execute(BEFORE)
    op.execute("drop function geo.abandoned()")
    # The tables of vector layers go with what is known of them.
    op.execute(
        "do $$ declare named text; begin "
        "for named in select table_name from geo.layers loop execute format('drop table if exists geo.%I', named); "
        "end loop; end $$"
    )
    op.execute("drop table geo.loaded_chunks, geo.layers")
    op.execute("revoke all on schema geo from cairn_loader, cairn_serving")
