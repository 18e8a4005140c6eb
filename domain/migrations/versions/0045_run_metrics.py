"""What the tries of a run have measured, summed by name; which nodes its flow runs worked for, and with what."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "run_metrics",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("memory", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", postgresql.DOUBLE_PRECISION(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["app.runs.run_id"], name=op.f("fk_run_metrics_run_id_runs")),
        sa.PrimaryKeyConstraint("run_id", "memory", "name", name=op.f("pk_run_metrics")),
        schema="app",
    )
    op.execute("grant select, insert, update on app.run_metrics to cairn_app")
    op.add_column("attempt_flow_runs", sa.Column("nodes", postgresql.ARRAY(sa.Text()), nullable=True), schema="app")
    op.add_column("run_nodes", sa.Column("parameters", postgresql.JSONB(), nullable=True), schema="app")
    op.add_column("run_nodes", sa.Column("updated_at", sa.DateTime(timezone=True), nullable=True), schema="app")


def downgrade() -> None:
    op.drop_column("run_nodes", "updated_at", schema="app")
    op.drop_column("run_nodes", "parameters", schema="app")
    op.drop_column("attempt_flow_runs", "nodes", schema="app")
    op.drop_table("run_metrics", schema="app")
