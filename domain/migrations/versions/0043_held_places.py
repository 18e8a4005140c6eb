"""Which pools and queues of Prefect's are paused, or have a limit of 0."""

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0038"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "held_places",
        sa.Column("place", sa.Text(), nullable=False),
        sa.Column("hold", sa.Text(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("place", name=op.f("pk_held_places")),
        schema="app",
    )
    op.execute("grant select, insert, update, delete on app.held_places to cairn_app")


def downgrade() -> None:
    op.drop_table("held_places", schema="app")
