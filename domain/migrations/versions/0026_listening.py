"""When processes of the domain could hear workers: silence before that, or between, tells nothing of an attempt."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "listening_spans",
        sa.Column("span_id", sa.Uuid(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("noted_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("span_id", name=op.f("pk_listening_spans")),
        schema="app",
    )
    op.execute("grant select, insert, update, delete on app.listening_spans to cairn_app")


def downgrade() -> None:
    op.drop_table("listening_spans", schema="app")
