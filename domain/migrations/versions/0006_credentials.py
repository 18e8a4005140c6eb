"""Credentials: two live keys while one is rotated, and when a client was revoked."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

ONE_KEY = """
create or replace view api.identities as
select secret_hash, client_id, role, platform_id, is_active
from app.clients
"""

TWO_KEYS = """
create or replace view api.identities as
select secret_hash, client_id, role, platform_id, is_active
from app.clients
union all
select previous_secret_hash, client_id, role, platform_id, is_active
from app.clients
where previous_until > now()
"""


def upgrade() -> None:
    op.add_column("clients", sa.Column("previous_secret_hash", sa.Text(), nullable=True), schema="app")
    op.add_column("clients", sa.Column("previous_until", sa.DateTime(timezone=True), nullable=True), schema="app")
    op.add_column("clients", sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True), schema="app")
    op.create_unique_constraint(
        op.f("uq_clients_previous_secret_hash"), "clients", ["previous_secret_hash"], schema="app"
    )
    op.execute(TWO_KEYS)


def downgrade() -> None:
    op.execute(ONE_KEY)
    op.drop_constraint(op.f("uq_clients_previous_secret_hash"), "clients", schema="app")
    op.drop_column("clients", "revoked_at", schema="app")
    op.drop_column("clients", "previous_until", schema="app")
    op.drop_column("clients", "previous_secret_hash", schema="app")
