"""Exports of what is approved and public, and where in the external zone a version's artifacts have copies."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "exports",
        sa.Column("request_id", sa.Uuid(), nullable=False),
        sa.Column("asset_id", sa.Text(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("destination", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("withdrawn_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("withdrawal_id", sa.Uuid(), nullable=True),
        sa.ForeignKeyConstraint(["request_id"], ["app.requests.request_id"], name=op.f("fk_exports_request_id")),
        sa.ForeignKeyConstraint(["withdrawal_id"], ["app.requests.request_id"], name=op.f("fk_exports_withdrawal_id")),
        sa.ForeignKeyConstraint(
            ["asset_id", "ordinal", "revision"],
            ["app.revisions.asset_id", "app.revisions.ordinal", "app.revisions.revision"],
            name=op.f("fk_exports_asset_id_ordinal_revision"),
        ),
        sa.PrimaryKeyConstraint("request_id", name=op.f("pk_exports")),
        schema="app",
    )
    op.create_index(
        "uq_exports_live",
        "exports",
        ["asset_id", "ordinal", "revision"],
        unique=True,
        schema="app",
        postgresql_where=sa.text("withdrawn_at is null"),
    )
    op.execute("grant select, insert, update, delete on app.exports to cairn_app")
    op.add_column("artifacts", sa.Column("external_blob_path", sa.Text(), nullable=True), schema="app")
    op.add_column("artifacts", sa.Column("adf_run_id", sa.Text(), nullable=True), schema="app")


def downgrade() -> None:
    op.drop_column("artifacts", "adf_run_id", schema="app")
    op.drop_column("artifacts", "external_blob_path", schema="app")
    op.drop_table("exports", schema="app")
