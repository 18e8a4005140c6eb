"""Where in bronze a platform's sources lie: none named means anywhere but in folders of ours, as it was."""

from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("alter table app.platforms add column source_prefixes text[] not null default '{}'")


def downgrade() -> None:
    op.execute("alter table app.platforms drop column source_prefixes")
