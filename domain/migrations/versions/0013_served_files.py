"""What serving needs to offer files beside the product, and to find the items of a version's parts."""

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

# The files of every served revision. What is staged for the catalogue names internal places and is not among them.
SERVED_FILES = """
create view api.served_files as
select v.asset_id, v.ordinal, rev.revision, f.role, f.name, f.sha256, f.media_type
from app.assets a
join app.asset_versions v on v.asset_id = a.asset_id and v.deleted_at is null
join app.revisions rev on rev.asset_id = v.asset_id and rev.ordinal = v.ordinal and rev.revision = v.served_revision
join app.artifacts f on f.asset_id = rev.asset_id and f.ordinal = rev.ordinal and f.revision = rev.revision
where a.deleted_at is null and rev.approval = 'approved' and f.zone = 'silver'
    and f.role not in ('stac_item', 'stac_items', 'stac_collection')
"""

# The served revisions that the catalogue holds in parts, each an item.
SERVED_IN_PARTS = """
create view api.served_in_parts as
select distinct v.asset_id, v.ordinal, rev.revision
from app.assets a
join app.asset_versions v on v.asset_id = a.asset_id and v.deleted_at is null
join app.revisions rev on rev.asset_id = v.asset_id and rev.ordinal = v.ordinal and rev.revision = v.served_revision
join app.artifacts f on f.asset_id = rev.asset_id and f.ordinal = rev.ordinal and f.revision = rev.revision
where a.deleted_at is null and rev.approval = 'approved' and f.role = 'stac_items'
"""


def upgrade() -> None:
    op.execute(SERVED_FILES)
    op.execute(SERVED_IN_PARTS)
    op.execute("grant select on api.served_files, api.served_in_parts to cairn_serving, cairn_app")
    op.execute("create index ix_artifacts_stac_items on app.artifacts (asset_id) where role = 'stac_items'")


def downgrade() -> None:
    op.execute("drop index app.ix_artifacts_stac_items")
    op.execute("drop view api.served_in_parts")
    op.execute("drop view api.served_files")
