"""Indexes for what operators read: lists of runs, timelines, statistics over a window."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_requests_created_at", "requests", ["created_at"], schema="app")
    op.create_index("ix_runs_created_at_run_id", "runs", ["created_at", "run_id"], schema="app")
    op.create_index(
        "ix_runs_open",
        "runs",
        ["created_at", "run_id"],
        schema="app",
        postgresql_where=sa.text("state in ('pending', 'running')"),
    )
    op.create_index(
        "ix_runs_started_at", "runs", ["started_at"], schema="app", postgresql_where=sa.text("started_at is not null")
    )
    op.create_index(
        "ix_attempts_repeated", "attempts", ["created_at"], schema="app", postgresql_where=sa.text("number > 1")
    )
    op.create_index("ix_artifacts_run_id", "artifacts", ["run_id"], schema="app")
    op.create_index(
        "ix_revisions_decided_at",
        "revisions",
        ["decided_at"],
        schema="app",
        postgresql_where=sa.text("decided_at is not null"),
    )


def downgrade() -> None:
    for name, table in (
        ("ix_revisions_decided_at", "revisions"),
        ("ix_artifacts_run_id", "artifacts"),
        ("ix_attempts_repeated", "attempts"),
        ("ix_runs_started_at", "runs"),
        ("ix_runs_open", "runs"),
        ("ix_runs_created_at_run_id", "runs"),
        ("ix_requests_created_at", "requests"),
    ):
        op.drop_index(name, table_name=table, schema="app")
