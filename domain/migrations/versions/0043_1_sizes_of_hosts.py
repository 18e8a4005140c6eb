"""How large workers' hosts are, what nodes need of one, and why a run is unroutable although its pool is served."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0043_1"
down_revision = "0045"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name, kind in (("memory_mb", sa.Double()), ("cpus", sa.Double()), ("gpus", sa.Integer())):
        op.add_column("pool_workers", sa.Column(name, kind, nullable=True), schema="app")
    op.add_column("run_nodes", sa.Column("needs", postgresql.JSONB(), nullable=True), schema="app")
    op.add_column("runs", sa.Column("unroutable_why", sa.Text(), nullable=True), schema="app")


def downgrade() -> None:
    op.drop_column("runs", "unroutable_why", schema="app")
    op.drop_column("run_nodes", "needs", schema="app")
    for name in ("gpus", "cpus", "memory_mb"):
        op.drop_column("pool_workers", name, schema="app")
