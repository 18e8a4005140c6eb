"""The audit: entries and seals that nobody can change, the owner's slips included."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

# Grants stop the service; the trigger also stops an administrator who did not mean it.
GUARD = """
create function app.refuse_change() returns trigger language plpgsql as $$
begin
    raise exception '% is append-only', tg_table_name using errcode = 'insufficient_privilege';
end $$
"""
APPEND_ONLY = """
create trigger append_only before update or delete or truncate on app.{table}
for each statement execute function app.refuse_change();
grant select, insert on app.{table} to cairn_app;
revoke update, delete, truncate on app.{table} from cairn_app
"""


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column("audit_id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("details", postgresql.JSONB(astext_type=sa.Text()), server_default="{}", nullable=False),
        sa.PrimaryKeyConstraint("audit_id", name=op.f("pk_audit")),
        schema="app",
    )
    op.create_index("ix_audit_subject", "audit", ["subject"], unique=False, schema="app")
    op.create_table(
        "audit_seals",
        sa.Column("sequence", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("audit_id", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("sealed_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["audit_id"], ["app.audit.audit_id"], name=op.f("fk_audit_seals_audit_id")),
        sa.PrimaryKeyConstraint("sequence", name=op.f("pk_audit_seals")),
        sa.UniqueConstraint("audit_id", name=op.f("uq_audit_seals_audit_id")),
        schema="app",
    )
    op.execute(GUARD)
    for table in ("audit", "audit_seals"):
        op.execute(APPEND_ONLY.format(table=table))
    op.execute("grant usage, select on all sequences in schema app to cairn_app")


def downgrade() -> None:
    op.drop_table("audit_seals", schema="app")
    op.drop_index("ix_audit_subject", table_name="audit", schema="app")
    op.drop_table("audit", schema="app")
    op.execute("drop function app.refuse_change()")
