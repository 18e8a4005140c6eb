"""Fenced attempts that were being sent and whose flow run, if there is one, nobody has linked yet."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

UNLINKED = "disposed_at is null and flow_run_id is null and lease_until is not null and state = 'fenced'"


def upgrade() -> None:
    op.create_index(
        "ix_attempts_unlinked", "attempts", ["lease_until"], schema="app", postgresql_where=sa.text(UNLINKED)
    )


def downgrade() -> None:
    op.drop_index("ix_attempts_unlinked", table_name="attempts", schema="app")
