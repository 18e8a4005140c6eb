"""How late the event loop of each worker wakes, as it says itself."""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("pool_workers", sa.Column("loop_lag_seconds", sa.Double(), nullable=True), schema="app")


def downgrade() -> None:
    op.drop_column("pool_workers", "loop_lag_seconds", schema="app")
