"""The catalogue's geometries get the SRID that searches by place compare them with; they were written without one.

Each geometry is written anew, which also puts it into its index anew. pgSTAC's triggers see to its own notes.
"""

from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

NAMED = "update pgstac.items set geometry = st_setsrid(geometry, 4326) where st_srid(geometry) = 0"


def upgrade() -> None:
    # pgSTAC's triggers find their tables by search path.
    op.execute("set local search_path to pgstac, public")
    op.execute(NAMED)
    op.execute("set local search_path to default")


def downgrade() -> None:
    """Nothing: releases before this read geometries of either kind."""
