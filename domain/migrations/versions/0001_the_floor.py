"""The tables of the floor: platforms, assets, requests, runs, attempts."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "platforms",
        sa.Column("platform_id", sa.Text(), nullable=False),
        sa.Column("display_name", sa.Text(), nullable=False),
        sa.Column("required_refs", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("optional_refs", postgresql.ARRAY(sa.Text()), server_default="{}", nullable=False),
        sa.Column("version_ref", sa.Text(), nullable=False),
        sa.Column("field_mapping", postgresql.JSONB(astext_type=sa.Text()), server_default="{}", nullable=False),
        sa.Column("is_active", sa.Boolean(), server_default="true", nullable=False),
        sa.PrimaryKeyConstraint("platform_id", name=op.f("pk_platforms")),
        schema="app",
    )
    op.create_table(
        "workflow_definitions",
        sa.Column("workflow_id", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("plan", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("published_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("workflow_id", "version", name=op.f("pk_workflow_definitions")),
        schema="app",
    )
    op.create_table(
        "assets",
        sa.Column("asset_id", sa.Text(), nullable=False),
        sa.Column("platform_id", sa.Text(), nullable=False),
        sa.Column("refs", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("data_type", sa.Text(), nullable=False),
        sa.Column("clearance", sa.Text(), server_default="uncleared", nullable=False),
        sa.Column("cleared_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("cleared_by", sa.Text(), nullable=True),
        sa.Column("made_public_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("made_public_by", sa.Text(), nullable=True),
        sa.Column("exposure", sa.Text(), server_default="latest_only", nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("deleted_by", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("lock_version", sa.Integer(), server_default="1", nullable=False),
        sa.ForeignKeyConstraint(["platform_id"], ["app.platforms.platform_id"], name=op.f("fk_assets_platform_id")),
        sa.PrimaryKeyConstraint("asset_id", name=op.f("pk_assets")),
        schema="app",
    )
    op.create_index("ix_assets_refs", "assets", ["refs"], unique=False, schema="app", postgresql_using="gin")
    op.create_table(
        "clients",
        sa.Column("client_id", sa.Text(), nullable=False),
        sa.Column("platform_id", sa.Text(), nullable=True),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("display_name", sa.Text(), nullable=False),
        sa.Column("secret_hash", sa.Text(), nullable=False),
        sa.Column("is_active", sa.Boolean(), server_default="true", nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["platform_id"], ["app.platforms.platform_id"], name=op.f("fk_clients_platform_id")),
        sa.PrimaryKeyConstraint("client_id", name=op.f("pk_clients")),
        sa.UniqueConstraint("secret_hash", name=op.f("uq_clients_secret_hash")),
        schema="app",
    )
    op.create_table(
        "asset_versions",
        sa.Column("asset_id", sa.Text(), nullable=False),
        sa.Column("ordinal", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("served_revision", sa.Integer(), nullable=True),
        sa.Column("newest_revision", sa.Integer(), nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("deleted_by", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("lock_version", sa.Integer(), server_default="1", nullable=False),
        sa.ForeignKeyConstraint(["asset_id"], ["app.assets.asset_id"], name=op.f("fk_asset_versions_asset_id")),
        sa.PrimaryKeyConstraint("asset_id", "ordinal", name=op.f("pk_asset_versions")),
        schema="app",
    )
    op.create_index(
        "uq_asset_versions_label",
        "asset_versions",
        ["asset_id", "label"],
        unique=True,
        schema="app",
        postgresql_where=sa.text("deleted_at is null"),
    )
    op.create_table(
        "requests",
        sa.Column("request_id", sa.Uuid(), nullable=False),
        sa.Column("platform_id", sa.Text(), nullable=True),
        sa.Column("client_id", sa.Text(), nullable=False),
        sa.Column("is_internal", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("data_type", sa.Text(), nullable=True),
        sa.Column("operation", sa.Text(), nullable=False),
        sa.Column("submitted", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("idempotency_key", sa.Text(), nullable=True),
        sa.Column("priority", sa.Text(), nullable=False),
        sa.Column("callback_url", sa.Text(), nullable=True),
        sa.Column("asset_id", sa.Text(), nullable=True),
        sa.Column("ordinal", sa.Integer(), nullable=True),
        sa.Column("revision", sa.Integer(), nullable=True),
        sa.Column("status", sa.Text(), server_default="pending", nullable=False),
        sa.Column("result", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("problem", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["client_id"], ["app.clients.client_id"], name=op.f("fk_requests_client_id")),
        sa.ForeignKeyConstraint(["platform_id"], ["app.platforms.platform_id"], name=op.f("fk_requests_platform_id")),
        sa.PrimaryKeyConstraint("request_id", name=op.f("pk_requests")),
        schema="app",
    )
    op.create_index("ix_requests_asset_id_ordinal", "requests", ["asset_id", "ordinal"], unique=False, schema="app")
    op.create_index(
        "uq_requests_idempotency_key",
        "requests",
        ["platform_id", "idempotency_key"],
        unique=True,
        schema="app",
        postgresql_where=sa.text("idempotency_key is not null"),
    )
    op.create_table(
        "events",
        sa.Column("event_id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("request_id", sa.Uuid(), nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=True),
        sa.Column("details", postgresql.JSONB(astext_type=sa.Text()), server_default="{}", nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["request_id"], ["app.requests.request_id"], name=op.f("fk_events_request_id")),
        sa.PrimaryKeyConstraint("event_id", name=op.f("pk_events")),
        schema="app",
    )
    op.create_index("ix_events_request_id_event_id", "events", ["request_id", "event_id"], unique=False, schema="app")
    op.create_table(
        "revisions",
        sa.Column("asset_id", sa.Text(), nullable=False),
        sa.Column("ordinal", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("revision", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("request_id", sa.Uuid(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("approval", sa.Text(), server_default="pending_review", nullable=False),
        sa.Column("processing", sa.Text(), server_default="pending", nullable=False),
        sa.Column("decided_by", sa.Text(), nullable=True),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("content_hash", sa.Text(), nullable=True),
        sa.Column("outputs", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["asset_id", "ordinal"],
            ["app.asset_versions.asset_id", "app.asset_versions.ordinal"],
            name=op.f("fk_revisions_asset_id_ordinal"),
        ),
        sa.PrimaryKeyConstraint("asset_id", "ordinal", "revision", name=op.f("pk_revisions")),
        schema="app",
    )
    op.create_table(
        "runs",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("request_id", sa.Uuid(), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("workflow_id", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("priority", sa.Text(), nullable=False),
        sa.Column("inputs", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("state", sa.Text(), server_default="pending", nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("outputs", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("problem", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["request_id"], ["app.requests.request_id"], name=op.f("fk_runs_request_id")),
        sa.ForeignKeyConstraint(
            ["workflow_id", "version"],
            ["app.workflow_definitions.workflow_id", "app.workflow_definitions.version"],
            name=op.f("fk_runs_workflow_id_version"),
        ),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_runs")),
        schema="app",
    )
    op.create_index("ix_runs_request_id", "runs", ["request_id"], unique=False, schema="app")
    op.create_table(
        "artifacts",
        sa.Column("artifact_id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("asset_id", sa.Text(), nullable=True),
        sa.Column("ordinal", sa.Integer(), nullable=True),
        sa.Column("revision", sa.Integer(), nullable=True),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("media_type", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("bbox", postgresql.ARRAY(sa.DOUBLE_PRECISION()), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["app.runs.run_id"], name=op.f("fk_artifacts_run_id")),
        sa.PrimaryKeyConstraint("artifact_id", name=op.f("pk_artifacts")),
        schema="app",
    )
    op.create_index(
        "ix_artifacts_version", "artifacts", ["asset_id", "ordinal", "revision"], unique=False, schema="app"
    )
    op.create_table(
        "attempts",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("token", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), server_default="ready", nullable=False),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("dispatch_tries", sa.Integer(), server_default="0", nullable=False),
        sa.Column("flow_run_id", sa.Uuid(), nullable=True),
        sa.Column("run_count", sa.Integer(), nullable=True),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("problem", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["app.runs.run_id"], name=op.f("fk_attempts_run_id")),
        sa.PrimaryKeyConstraint("run_id", "number", name=op.f("pk_attempts")),
        sa.UniqueConstraint("token", name=op.f("uq_attempts_token")),
        schema="app",
    )
    op.create_index("ix_attempts_flow_run_id", "attempts", ["flow_run_id"], unique=False, schema="app")
    op.create_index(
        "ix_attempts_alive",
        "attempts",
        ["heartbeat_at"],
        unique=False,
        schema="app",
        postgresql_where=sa.text("state = 'started'"),
    )
    op.create_index(
        "ix_attempts_to_dispatch",
        "attempts",
        ["created_at"],
        unique=False,
        schema="app",
        postgresql_where=sa.text("state in ('ready', 'sending')"),
    )
    op.create_index(
        "uq_attempts_live",
        "attempts",
        ["run_id"],
        unique=True,
        schema="app",
        postgresql_where=sa.text("state in ('ready', 'sending', 'sent', 'started')"),
    )
    op.create_table(
        "run_nodes",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("handler", sa.Text(), nullable=True),
        sa.Column("pool", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), server_default="pending", nullable=False),
        sa.Column("tries", sa.Integer(), server_default="0", nullable=False),
        sa.Column("fraction", sa.DOUBLE_PRECISION(), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("items_total", sa.Integer(), nullable=True),
        sa.Column("items_done", sa.Integer(), nullable=True),
        sa.Column("items_failed", sa.Integer(), nullable=True),
        sa.Column("problem", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["app.runs.run_id"], name=op.f("fk_run_nodes_run_id")),
        sa.PrimaryKeyConstraint("run_id", "node_id", name=op.f("pk_run_nodes")),
        schema="app",
    )
    op.create_table(
        "attempt_flow_runs",
        sa.Column("flow_run_id", sa.Uuid(), nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("segment", sa.Integer(), nullable=True),
        sa.Column("pool", sa.Text(), nullable=True),
        sa.Column("registered_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "number"],
            ["app.attempts.run_id", "app.attempts.number"],
            name=op.f("fk_attempt_flow_runs_run_id_number"),
        ),
        sa.PrimaryKeyConstraint("flow_run_id", name=op.f("pk_attempt_flow_runs")),
        schema="app",
    )
    op.create_index(
        "ix_attempt_flow_runs_attempt", "attempt_flow_runs", ["run_id", "number"], unique=False, schema="app"
    )


def downgrade() -> None:
    op.drop_index("ix_attempt_flow_runs_attempt", table_name="attempt_flow_runs", schema="app")
    op.drop_table("attempt_flow_runs", schema="app")
    op.drop_table("run_nodes", schema="app")
    op.drop_index(
        "uq_attempts_live",
        table_name="attempts",
        schema="app",
        postgresql_where=sa.text("state in ('ready', 'sending', 'sent', 'started')"),
    )
    op.drop_index(
        "ix_attempts_to_dispatch",
        table_name="attempts",
        schema="app",
        postgresql_where=sa.text("state in ('ready', 'sending')"),
    )
    op.drop_index(
        "ix_attempts_alive", table_name="attempts", schema="app", postgresql_where=sa.text("state = 'started'")
    )
    op.drop_table("attempts", schema="app")
    op.drop_index("ix_artifacts_version", table_name="artifacts", schema="app")
    op.drop_table("artifacts", schema="app")
    op.drop_index("ix_runs_request_id", table_name="runs", schema="app")
    op.drop_table("runs", schema="app")
    op.drop_table("revisions", schema="app")
    op.drop_index("ix_events_request_id_event_id", table_name="events", schema="app")
    op.drop_table("events", schema="app")
    op.drop_index(
        "uq_requests_idempotency_key",
        table_name="requests",
        schema="app",
        postgresql_where=sa.text("idempotency_key is not null"),
    )
    op.drop_index("ix_requests_asset_id_ordinal", table_name="requests", schema="app")
    op.drop_table("requests", schema="app")
    op.drop_index(
        "uq_asset_versions_label",
        table_name="asset_versions",
        schema="app",
        postgresql_where=sa.text("deleted_at is null"),
    )
    op.drop_table("asset_versions", schema="app")
    op.drop_table("clients", schema="app")
    op.drop_index("ix_assets_refs", table_name="assets", schema="app", postgresql_using="gin")
    op.drop_table("assets", schema="app")
    op.drop_table("workflow_definitions", schema="app")
    op.drop_table("platforms", schema="app")
