"""Since when each version of a workflow is the one that runs: a rollback takes up an earlier one again."""

import sqlalchemy as sa
from alembic import op

revision = "0046"
down_revision = "0043"
branch_labels = None
depends_on = None


def upgrade() -> None:
    now = sa.text("now()")
    column = sa.Column("taken_up_at", sa.DateTime(timezone=True), server_default=now, nullable=False)
    op.add_column("workflow_definitions", column, schema="app")
    op.execute("update app.workflow_definitions set taken_up_at = published_at")


def downgrade() -> None:
    op.drop_column("workflow_definitions", "taken_up_at", schema="app")
