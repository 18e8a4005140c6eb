"""Attempts rest before they are sent, or await workers that have their handlers; workers say which they have."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None

LANE = ["pool", "work_pool", "priority", "platform_id", "workflow_id"]


def upgrade() -> None:
    words = postgresql.ARRAY(sa.Text())
    op.add_column("attempts", sa.Column("not_before", sa.DateTime(timezone=True), nullable=True), schema="app")
    op.add_column("attempts", sa.Column("awaits", words, nullable=True), schema="app")
    op.add_column("pool_workers", sa.Column("handlers", words, nullable=True), schema="app")
    op.create_index(
        "ix_attempts_awaiting",
        "attempts",
        ["run_id"],
        schema="app",
        postgresql_where=sa.text("awaits is not null and state = 'ready'"),
    )
    op.drop_index("ix_attempts_lanes", table_name="attempts", schema="app")
    lanes(sa.text("coalesce(not_before, created_at)"), "state = 'ready' and awaits is null")


def lanes(since: "str | sa.TextClause", in_line: str) -> None:
    """The index of what waits, by lanes; what rests comes last in its lane, what awaits a worker is not in it."""
    op.create_index("ix_attempts_lanes", "attempts", [*LANE, since], schema="app", postgresql_where=sa.text(in_line))


def downgrade() -> None:
    op.drop_index("ix_attempts_lanes", table_name="attempts", schema="app")
    lanes("created_at", "state = 'ready'")
    op.drop_index("ix_attempts_awaiting", "attempts", schema="app")
    op.drop_column("pool_workers", "handlers", schema="app")
    op.drop_column("attempts", "awaits", schema="app")
    op.drop_column("attempts", "not_before", schema="app")
