"""What a run pins beside its own workflow, which generation of memory it works in, what it handed over."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

COLUMNS = ("pins", "memory", "hand_overs")


def upgrade() -> None:
    pins = sa.Column("pins", postgresql.JSONB(astext_type=sa.Text()), server_default="{}", nullable=False)
    op.add_column("runs", pins, schema="app")
    op.add_column("runs", sa.Column("memory", sa.Integer(), server_default="1", nullable=False), schema="app")
    op.add_column("runs", sa.Column("hand_overs", sa.Integer(), server_default="0", nullable=False), schema="app")


def downgrade() -> None:
    for column in COLUMNS:
        op.drop_column("runs", column, schema="app")
