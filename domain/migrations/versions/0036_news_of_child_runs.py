"""How often child runs of an attempt began, or left their outcome: the flow run that waits for them hears of more."""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("attempts", sa.Column("news", sa.Integer(), server_default="0", nullable=False), schema="app")


def downgrade() -> None:
    op.drop_column("attempts", "news", schema="app")
