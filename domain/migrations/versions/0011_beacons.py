"""Who serves which pool, which runs wait for a pool that nobody serves, and on what flow runs ran."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

MARKED = "unroutable_since is not null"


def upgrade() -> None:
    op.create_table(
        "pool_workers",
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("pool", "worker", name=op.f("pk_pool_workers")),
        schema="app",
    )
    op.execute("grant select, insert, update, delete on app.pool_workers to cairn_app")
    op.add_column("runs", sa.Column("unroutable_pool", sa.Text(), nullable=True), schema="app")
    op.add_column("runs", sa.Column("unroutable_since", sa.DateTime(timezone=True), nullable=True), schema="app")
    op.create_index("ix_runs_unroutable", "runs", ["unroutable_since"], schema="app", postgresql_where=sa.text(MARKED))
    op.add_column("attempt_flow_runs", sa.Column("image", sa.Text(), nullable=True), schema="app")
    op.add_column("attempt_flow_runs", sa.Column("job_template", sa.Text(), nullable=True), schema="app")


def downgrade() -> None:
    for column in ("image", "job_template"):
        op.drop_column("attempt_flow_runs", column, schema="app")
    for column in ("unroutable_pool", "unroutable_since"):
        op.drop_column("runs", column, schema="app")
    op.drop_table("pool_workers", schema="app")
