"""Who is signed in to the console, and whom serving takes the holder of such a session for."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

# Reading only: no other door knows sessions, so a cookie is no key to the platform's API.
SESSIONS = """
create view api.sessions as
select s.session_hash, c.client_id, c.role, c.platform_id
from app.console_sessions s
join app.clients c on c.client_id = s.client_id and c.is_active
where s.expires_at > clock_timestamp()
"""


def upgrade() -> None:
    op.create_table(
        "console_sessions",
        sa.Column("session_hash", sa.Text(), nullable=False),
        sa.Column("client_id", sa.Text(), nullable=True),
        sa.Column("form_token", sa.Text(), nullable=False),
        sa.Column("pending", postgresql.JSONB(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["client_id"], ["app.clients.client_id"], name=op.f("fk_console_sessions_client_id")),
        sa.PrimaryKeyConstraint("session_hash", name=op.f("pk_console_sessions")),
        schema="app",
    )
    op.create_index("ix_console_sessions_expires_at", "console_sessions", ["expires_at"], schema="app")
    op.execute("grant select, insert, update, delete on app.console_sessions to cairn_app")
    op.execute(SESSIONS)
    op.execute("grant select on api.sessions to cairn_serving, cairn_app")


def downgrade() -> None:
    op.execute("drop view api.sessions")
    op.drop_table("console_sessions", schema="app")
