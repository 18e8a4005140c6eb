"""Approvals one by one, so that several may be asked for and each may end; and news of what readers may remember."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

# Who approved before there were several is counted as the one who was asked for.
BEFORE_THIS = """
insert into app.approvals (asset_id, ordinal, revision, reviewer, clearance_level, content_hash, given_at)
select r.asset_id, r.ordinal, r.revision, coalesce(r.decided_by, 'unknown'),
       case a.clearance when 'uncleared' then 'ouo' else a.clearance end, r.content_hash,
       coalesce(r.decided_at, r.created_at)
from app.revisions r join app.assets a using (asset_id) where r.approval = 'approved'
"""

# As before, but that an approval which has ended serves nothing, whether or not anybody has noticed yet.
SERVED = """
create or replace view api.served_products as
select a.asset_id, a.platform_id, v.ordinal, rev.revision, a.clearance, rev.approval, a.exposure,
       v.ordinal = max(v.ordinal) over (partition by a.asset_id) as is_latest,
       cog.name as cog_name, cog.sha256 as cog_sha256, cog.size_bytes as cog_size_bytes,
       rev.outputs -> 'bands' as bands, rev.outputs -> 'bounds' as bounds_wgs84,
       parquet.name as parquet_name, layer.table_name, layer.description as layer
from app.assets a
join app.asset_versions v on v.asset_id = a.asset_id and v.deleted_at is null
join app.revisions rev on rev.asset_id = v.asset_id and rev.ordinal = v.ordinal
    and rev.revision = v.served_revision and rev.approval = 'approved' {still_holds}
left join app.artifacts cog on cog.asset_id = rev.asset_id and cog.ordinal = rev.ordinal
                           and cog.revision = rev.revision and cog.role = 'cog'
left join app.artifacts parquet on parquet.asset_id = rev.asset_id and parquet.ordinal = rev.ordinal
                               and parquet.revision = rev.revision and parquet.role = 'geoparquet'
left join geo.layers layer on layer.product = parquet.name and layer.is_ready
where a.deleted_at is null and (cog.name is not null or layer.table_name is not null or exists (
    select from app.artifacts f where f.asset_id = rev.asset_id and f.ordinal = rev.ordinal
        and f.revision = rev.revision and f.role = 'stac_items'))
"""
HOLDS = "and (rev.approved_until is null or rev.approved_until > clock_timestamp())"

# What describes a revision that is served or waits for its review: staff look at it before anybody else can.
DESCRIPTIONS = """
create view api.descriptions as
select v.asset_id, v.ordinal, rev.revision, f.role, f.name
from app.assets a
join app.asset_versions v on v.asset_id = a.asset_id and v.deleted_at is null
join app.revisions rev on rev.asset_id = v.asset_id and rev.ordinal = v.ordinal
    and rev.revision in (v.served_revision, v.newest_revision) and rev.processing = 'completed'
    and rev.approval <> 'rejected'
join app.artifacts f on f.asset_id = rev.asset_id and f.ordinal = rev.ordinal and f.revision = rev.revision
where a.deleted_at is null and f.zone = 'silver' and f.role in ('stac_item', 'stac_items')
"""
STAGED_FILES = """
create view api.staged_files as
select v.asset_id, v.ordinal, rev.revision, f.role, f.name, f.sha256, f.media_type
from app.assets a
join app.asset_versions v on v.asset_id = a.asset_id and v.deleted_at is null
join app.revisions rev on rev.asset_id = v.asset_id and rev.ordinal = v.ordinal and rev.revision = v.newest_revision
join app.artifacts f on f.asset_id = rev.asset_id and f.ordinal = rev.ordinal and f.revision = rev.revision
where a.deleted_at is null and rev.approval = 'pending_review' and rev.processing = 'completed'
    and f.zone = 'silver' and f.role not in ('stac_item', 'stac_items', 'stac_collection')
"""

# Whatever way a decision comes, readers hear of it with its commit. Submissions touch none of these columns: a NOTIFY
# makes commits take turns.
NEWS = """
create function app.tell_readers() returns trigger language plpgsql as $$
begin
    perform pg_notify('cairn_cache', tg_argv[0]);
    return null;
end $$;
create trigger tell_readers after update of clearance, exposure, deleted_at on app.assets for each row
    when ((old.clearance, old.exposure, old.deleted_at) is distinct from (new.clearance, new.exposure, new.deleted_at))
    execute function app.tell_readers('assets');
create trigger tell_readers after update of served_revision, deleted_at on app.asset_versions for each row
    when ((old.served_revision, old.deleted_at) is distinct from (new.served_revision, new.deleted_at))
    execute function app.tell_readers('assets');
create trigger tell_readers after update of role, platform_id, is_active, secret_hash, previous_secret_hash,
    previous_until on app.clients for each row
    when (old.* is distinct from new.*) execute function app.tell_readers('clients');
"""

# The schema before this knows one approval, without an end: what holds for a while would hold for ever.
WOULD_BE_FORGOTTEN = """
select exists (select from app.revisions where approved_until is not null)
    or exists (select from app.platforms where approvals_required > 1 or approval_days is not null)
"""
REFUSED = (
    "The schema before 0014 knows no approvals that end and no platforms that ask for several. Unpublish the revisions "
    "whose approved_until is set, and register the platforms with approvals_required 1 and no approval_days, then "
    "downgrade."
)


def upgrade() -> None:
    op.create_table(
        "approvals",
        sa.Column("approval_id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("asset_id", sa.Text(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("reviewer", sa.Text(), nullable=False),
        sa.Column("clearance_level", sa.Text(), nullable=False),
        sa.Column("comment", sa.Text(), nullable=True),
        sa.Column("content_hash", sa.Text(), nullable=True),
        sa.Column("given_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("withdrawn_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("withdrawn_reason", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["asset_id", "ordinal", "revision"],
            ["app.revisions.asset_id", "app.revisions.ordinal", "app.revisions.revision"],
            name=op.f("fk_approvals_asset_id_ordinal_revision"),
        ),
        sa.PrimaryKeyConstraint("approval_id", name=op.f("pk_approvals")),
        schema="app",
    )
    op.create_index("ix_approvals_revision", "approvals", ["asset_id", "ordinal", "revision"], schema="app")
    op.create_index(
        "ix_approvals_expires_at",
        "approvals",
        ["expires_at"],
        schema="app",
        postgresql_where=sa.text("expires_at is not null"),
    )
    op.execute("grant select, insert, update, delete on app.approvals to cairn_app")
    op.add_column("revisions", sa.Column("approved_until", sa.DateTime(timezone=True), nullable=True), schema="app")
    op.create_index(
        "ix_revisions_approved_until",
        "revisions",
        ["approved_until"],
        schema="app",
        postgresql_where=sa.text("approved_until is not null"),
    )
    required = sa.Column("approvals_required", sa.Integer(), server_default=sa.text("1"), nullable=False)
    op.add_column("platforms", required, schema="app")
    op.add_column("platforms", sa.Column("approval_days", sa.Integer(), nullable=True), schema="app")
    for statement in (BEFORE_THIS, SERVED.format(still_holds=HOLDS), DESCRIPTIONS, STAGED_FILES, NEWS):
        op.execute(statement)
    op.execute("grant select on api.descriptions, api.staged_files to cairn_serving, cairn_app")


def downgrade() -> None:
    if op.get_bind().execute(sa.text(WOULD_BE_FORGOTTEN)).scalar_one():
        raise RuntimeError(REFUSED)
    for table in ("clients", "asset_versions", "assets"):
        op.execute(f"drop trigger tell_readers on app.{table}")
    op.execute("drop function app.tell_readers()")
    op.execute("drop view api.staged_files, api.descriptions")
    op.execute(SERVED.format(still_holds=""))
    op.drop_column("platforms", "approval_days", schema="app")
    op.drop_column("platforms", "approvals_required", schema="app")
    op.drop_column("revisions", "approved_until", schema="app")
    op.drop_table("approvals", schema="app")
