"""Attempts rest before they are sent, or await workers that have their handlers; workers say which they have."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0031"
down_revision = "0026"
branch_labels = None
depends_on = None


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


def downgrade() -> None:
    op.drop_index("ix_attempts_awaiting", "attempts", schema="app")
    op.drop_column("pool_workers", "handlers", schema="app")
    op.drop_column("attempts", "awaits", schema="app")
    op.drop_column("attempts", "not_before", schema="app")
