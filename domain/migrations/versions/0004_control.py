"""Control and plans: pauses and limits as rows, pools and steps of runs, and what the reconciler remembers."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

TO_DISPOSE = "disposed_at is null and flow_run_id is not null and state in ('committed', 'failed', 'fenced')"


def run_columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("pool", sa.Text(), server_default="light", nullable=False),
        sa.Column("step_id", sa.Text(), nullable=True),
        sa.Column("depends_on", postgresql.ARRAY(sa.Text()), server_default="{}", nullable=False),
        sa.Column("first_attempt", sa.Integer(), server_default="1", nullable=False),
    ]


def attempt_columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("sent_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("disposed_at", sa.DateTime(timezone=True), nullable=True),
    ]


def upgrade() -> None:
    op.create_table(
        "settings",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("updated_by", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("kind", "name", name=op.f("pk_settings")),
        schema="app",
    )
    op.execute("grant select, insert, update, delete on app.settings to cairn_app")
    for column in run_columns():
        op.add_column("runs", column, schema="app")
    for column in attempt_columns():
        op.add_column("attempts", column, schema="app")
    op.add_column("requests", sa.Column("plan", postgresql.JSONB(astext_type=sa.Text()), nullable=True), schema="app")
    # What ended before this migration is nobody's to look after.
    op.execute("update app.attempts set disposed_at = now() where state in ('committed', 'failed', 'fenced')")
    op.create_index(
        "ix_attempts_to_dispose", "attempts", ["finished_at"], schema="app", postgresql_where=sa.text(TO_DISPOSE)
    )
    op.create_index(
        "ix_requests_open",
        "requests",
        ["platform_id"],
        schema="app",
        postgresql_where=sa.text("status in ('pending', 'processing')"),
    )


def downgrade() -> None:
    op.drop_index("ix_requests_open", table_name="requests", schema="app")
    op.drop_index("ix_attempts_to_dispose", table_name="attempts", schema="app")
    op.drop_column("requests", "plan", schema="app")
    for column in attempt_columns():
        op.drop_column("attempts", column.name, schema="app")
    for column in run_columns():
        op.drop_column("runs", column.name, schema="app")
    op.drop_table("settings", schema="app")
