"""What people say about layers, and which of it the catalogue shows."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "layer_metadata",
        sa.Column("asset_id", sa.Text(), nullable=False),
        sa.Column("content", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_by", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["asset_id"], ["app.assets.asset_id"], name=op.f("fk_layer_metadata_asset_id")),
        sa.PrimaryKeyConstraint("asset_id", name=op.f("pk_layer_metadata")),
        schema="app",
    )
    op.create_table(
        "layer_catalog",
        sa.Column("asset_id", sa.Text(), nullable=False),
        sa.Column("content", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("published_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("published_by", sa.Text(), nullable=False),
        sa.Column("external_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["asset_id"], ["app.assets.asset_id"], name=op.f("fk_layer_catalog_asset_id")),
        sa.PrimaryKeyConstraint("asset_id", name=op.f("pk_layer_catalog")),
        schema="app",
    )
    for table in ("layer_metadata", "layer_catalog"):
        op.execute(f"grant select, insert, update, delete on app.{table} to cairn_app")


def downgrade() -> None:
    op.drop_table("layer_catalog", schema="app")
    op.drop_table("layer_metadata", schema="app")
