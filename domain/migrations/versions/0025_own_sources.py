"""A platform without folders submits from its own; a layer is served by the run that made its table and its product."""

import logging

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

log = logging.getLogger("cairn.migrations")

# Until here, none meant all of bronze but our own folders. From here on it means nothing of bronze. Nobody submits for
# the platform of operators' own runs, which have no need of folders.
OWN_FOLDERS = """
update app.platforms set source_prefixes = array['uploads/' || platform_id || '/']
where source_prefixes = '{}' and platform_id <> 'internal' returning platform_id
"""
TOLD = (
    "these platforms had no source_prefixes and could submit any file; from now on each submits from uploads/ and its "
    'own name: %s. To let one submit from elsewhere, register it with those folders, as in ["uploads/"]'
)

# As 0014 and 0012 have them, but that a table counts only where the run that handed in the product had it made.
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
    and rev.revision = v.served_revision and rev.approval = 'approved'
    and (rev.approved_until is null or rev.approved_until > clock_timestamp())
left join app.artifacts cog on cog.asset_id = rev.asset_id and cog.ordinal = rev.ordinal
                           and cog.revision = rev.revision and cog.role = 'cog'
left join app.artifacts parquet on parquet.asset_id = rev.asset_id and parquet.ordinal = rev.ordinal
                               and parquet.revision = rev.revision and parquet.role = 'geoparquet'
left join geo.layers layer on layer.product = parquet.name and layer.is_ready {of_its_run}
where a.deleted_at is null and (cog.name is not null or layer.table_name is not null or exists (
    select from app.artifacts f where f.asset_id = rev.asset_id and f.ordinal = rev.ordinal
        and f.revision = rev.revision and f.role = 'stac_items'))
"""
STAGED = """
create or replace view api.staged_products as
select a.asset_id, a.platform_id, v.ordinal, rev.revision, a.clearance, rev.approval, a.exposure,
       false as is_latest,
       cog.name as cog_name, cog.sha256 as cog_sha256, cog.size_bytes as cog_size_bytes,
       rev.outputs -> 'bands' as bands, rev.outputs -> 'bounds' as bounds_wgs84,
       parquet.name as parquet_name, layer.table_name, layer.description as layer
from app.assets a
join app.asset_versions v on v.asset_id = a.asset_id and v.deleted_at is null
join app.revisions rev on rev.asset_id = v.asset_id and rev.ordinal = v.ordinal
    and rev.revision = v.newest_revision and rev.approval = 'pending_review' and rev.processing = 'completed'
left join app.artifacts cog on cog.asset_id = rev.asset_id and cog.ordinal = rev.ordinal
                           and cog.revision = rev.revision and cog.role = 'cog'
left join app.artifacts parquet on parquet.asset_id = rev.asset_id and parquet.ordinal = rev.ordinal
                               and parquet.revision = rev.revision and parquet.role = 'geoparquet'
left join geo.layers layer on layer.product = parquet.name and layer.is_ready {of_its_run}
where a.deleted_at is null and (cog.name is not null or layer.table_name is not null or exists (
    select from app.artifacts f where f.asset_id = rev.asset_id and f.ordinal = rev.ordinal
        and f.revision = rev.revision and f.role = 'stac_items'))
"""
OF_ITS_RUN = "and layer.run_id = parquet.run_id::text"


def upgrade() -> None:
    changed = op.get_bind().execute(sa.text(OWN_FOLDERS)).scalars().all()
    if changed and op.get_bind().execute(sa.text("select exists (select from app.clients)")).scalar():
        log.warning(TOLD, ", ".join(sorted(changed)))
    for view in (SERVED, STAGED):
        op.execute(view.format(of_its_run=OF_ITS_RUN))


def downgrade() -> None:
    """Folders stay: the schema before knows them too, and without them a platform could submit everything again."""
    for view in (SERVED, STAGED):
        op.execute(view.format(of_its_run=""))
