"""When what a request left over was removed, and who may drop the tables of vectors that nobody needs."""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None

INDEX = "collected_at is null and finished_at is not null"

# The domain decides, by marking the request; a table of what may be served or may still be loaded is never such.
COLLECTABLE = """
create function geo.collectable(run_ids uuid[]) returns setof text
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select l.table_name from geo.layers l
    where l.run_id = any(run_ids::text[]) and not exists (
        select from app.artifacts f
        left join app.asset_versions v on v.asset_id = f.asset_id and v.ordinal = f.ordinal
        where f.run_id = any(run_ids) and f.run_id::text = l.run_id and f.name = l.product and v.deleted_at is null
    ) and exists (
        select from app.runs r join app.requests q using (request_id)
        where r.run_id = any(run_ids) and r.run_id::text = l.run_id and q.collecting_at is not null
    )
$$
"""

# As the role that owns the tables, and for the domain alone, which owns none. Nobody who loads is waited for.
DROP_COLLECTED = """
create function geo.drop_collected(run_ids uuid[]) returns table (name text, bytes bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '2s' as $$
begin
    for name in select geo.collectable(run_ids) loop
        bytes := coalesce(pg_total_relation_size(to_regclass(format('geo.%I', name))), 0);
        execute format('drop table if exists geo.%I', name);
        delete from geo.layers l where l.table_name = name;
        return next;
    end loop;
end $$
"""

GRANTS = """
revoke execute on function geo.collectable(uuid[]), geo.drop_collected(uuid[]) from public;
grant execute on function geo.collectable(uuid[]) to cairn_loader;
grant execute on function geo.drop_collected(uuid[]) to cairn_app;
grant usage on schema geo to cairn_app;
"""

# Who gives a function away must be a member of the role that takes it, unless nothing is refused to them.
OWNER = """
do $$ begin
    if not (select rolsuper from pg_roles where rolname = current_user) then
        execute format('grant cairn_loader to %I', current_user);
    end if;
end $$;
alter function geo.drop_collected(uuid[]) owner to cairn_loader;
"""

# Loaders of the release before ask it, and drop what it tells: that is the domain's to decide now.
NONE_ABANDONED = """
create or replace function geo.abandoned() returns setof text
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select null::text where false
$$
"""

BEFORE = """
create or replace function geo.abandoned() returns setof text
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


def upgrade() -> None:
    for name in ("collecting_at", "collected_at"):
        op.add_column("requests", sa.Column(name, sa.DateTime(timezone=True), nullable=True), schema="app")
    columns = ["status", "finished_at"]
    op.create_index("ix_requests_to_collect", "requests", columns, schema="app", postgresql_where=sa.text(INDEX))
    op.execute("create index layers_run_id on geo.layers (run_id)")
    op.execute(NONE_ABANDONED)
    for statement in (COLLECTABLE, DROP_COLLECTED, GRANTS, OWNER):
        op.execute(statement)


def downgrade() -> None:
    op.execute("revoke usage on schema geo from cairn_app")
    op.execute("drop function geo.drop_collected(uuid[])")
    op.execute("drop function geo.collectable(uuid[])")
    op.execute(BEFORE)
    op.execute("drop index geo.layers_run_id")
    op.drop_index("ix_requests_to_collect", table_name="requests", schema="app")
    for name in ("collected_at", "collecting_at"):
        op.drop_column("requests", name, schema="app")
