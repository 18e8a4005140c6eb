"""Callbacks: their outbox, endpoints, signing secrets and delivery log."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

TABLES = ("callback_endpoints", "callback_secrets", "callbacks", "callback_deliveries")


def upgrade() -> None:
    op.create_table(
        "callback_endpoints",
        sa.Column("endpoint_id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("client_id", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("failures", sa.Integer(), server_default="0", nullable=False),
        sa.Column("disabled_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["client_id"], ["app.clients.client_id"], name=op.f("fk_callback_endpoints_client_id")),
        sa.PrimaryKeyConstraint("endpoint_id", name=op.f("pk_callback_endpoints")),
        sa.UniqueConstraint("client_id", "url", name=op.f("uq_callback_endpoints_client_id_url")),
        schema="app",
    )
    op.create_table(
        "callback_secrets",
        sa.Column("secret_id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("client_id", sa.Text(), nullable=False),
        sa.Column("sealed", sa.Text(), nullable=False),
        sa.Column("retires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["client_id"], ["app.clients.client_id"], name=op.f("fk_callback_secrets_client_id")),
        sa.PrimaryKeyConstraint("secret_id", name=op.f("pk_callback_secrets")),
        schema="app",
    )
    op.create_index("ix_callback_secrets_client_id", "callback_secrets", ["client_id"], schema="app")
    op.create_table(
        "callbacks",
        sa.Column("callback_id", sa.Uuid(), nullable=False),
        sa.Column("request_id", sa.Uuid(), nullable=False),
        sa.Column("endpoint_id", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("problem", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("state", sa.Text(), server_default="ready", nullable=False),
        sa.Column("tries", sa.Integer(), server_default="0", nullable=False),
        sa.Column("claim", sa.Integer(), server_default="0", nullable=False),
        sa.Column("next_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["endpoint_id"], ["app.callback_endpoints.endpoint_id"], name=op.f("fk_callbacks_endpoint_id")
        ),
        sa.ForeignKeyConstraint(["request_id"], ["app.requests.request_id"], name=op.f("fk_callbacks_request_id")),
        sa.PrimaryKeyConstraint("callback_id", name=op.f("pk_callbacks")),
        schema="app",
    )
    op.create_index(
        "ix_callbacks_due",
        "callbacks",
        ["endpoint_id", "next_at"],
        schema="app",
        postgresql_where=sa.text("state in ('ready', 'sending')"),
    )
    op.create_index("ix_callbacks_request_id", "callbacks", ["request_id"], schema="app")
    op.create_index("ix_callbacks_created_at_callback_id", "callbacks", ["created_at", "callback_id"], schema="app")
    op.create_table(
        "callback_deliveries",
        sa.Column("delivery_id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("callback_id", sa.Uuid(), nullable=False),
        sa.Column("status_code", sa.Integer(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("excerpt", sa.Text(), nullable=True),
        sa.Column("duration_ms", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["callback_id"], ["app.callbacks.callback_id"], name=op.f("fk_callback_deliveries_callback_id")
        ),
        sa.PrimaryKeyConstraint("delivery_id", name=op.f("pk_callback_deliveries")),
        schema="app",
    )
    op.create_index("ix_callback_deliveries_callback_id", "callback_deliveries", ["callback_id"], schema="app")
    for table in TABLES:
        op.execute(f"grant select, insert, update, delete on app.{table} to cairn_app")
    op.execute("revoke update, delete on app.callback_deliveries from cairn_app")
    op.execute("grant usage, select on all sequences in schema app to cairn_app")


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table, schema="app")
