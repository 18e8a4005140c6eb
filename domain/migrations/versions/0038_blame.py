"""How often a run's process vanished while a node was at work, and how many of its items were done by then."""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("run_nodes", sa.Column("losses", sa.Integer(), server_default="0", nullable=False), schema="app")
    op.add_column("run_nodes", sa.Column("lost_at", sa.Integer(), server_default="0", nullable=False), schema="app")


def downgrade() -> None:
    op.drop_column("run_nodes", "lost_at", schema="app")
    op.drop_column("run_nodes", "losses", schema="app")
