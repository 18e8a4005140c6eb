"""Requests that the service makes by itself have no client; keys that came with what had been accepted are kept."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.alter_column("requests", "client_id", nullable=True, schema="app")
    op.create_check_constraint("somebody_asked", "requests", "client_id is not null or is_internal", schema="app")
    op.create_table(
        "later_keys",
        sa.Column("platform_id", sa.Text(), nullable=False),
        sa.Column("idempotency_key", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Uuid(), nullable=False),
        sa.PrimaryKeyConstraint("platform_id", "idempotency_key", name=op.f("pk_later_keys")),
        sa.ForeignKeyConstraint(["request_id"], ["app.requests.request_id"], name=op.f("fk_later_keys_request_id")),
        schema="app",
    )
    op.execute("grant select, insert, update, delete on app.later_keys to cairn_app")


def downgrade() -> None:
    op.drop_table("later_keys", schema="app")
    op.drop_constraint("ck_requests_somebody_asked", "requests", schema="app")
    op.execute(
        "insert into app.clients (client_id, role, display_name, secret_hash, is_active)"
        " values ('cairn-domain', 'admin', 'The service itself', 'none: nobody is let in by it', false)"
        " on conflict do nothing"
    )
    op.execute("update app.requests set client_id = 'cairn-domain' where client_id is null")
    op.alter_column("requests", "client_id", nullable=False, schema="app")
