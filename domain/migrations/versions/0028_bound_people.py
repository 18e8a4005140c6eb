"""People at the console are whom a provider's issuer and subject name; sign-ins under way are no rows any more."""

import logging

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0028"
down_revision = "0026"
branch_labels = None
depends_on = None

log = logging.getLogger("cairn.migrations")

BY_NAME = """
select distinct a.actor from app.audit a join app.clients c on c.client_id = a.actor and c.is_active
where a.action = 'console.sign-in' and a.details ->> 'way' = 'oidc' order by 1
"""
TOLD = (
    "these clients signed in at the console by a name that the sign-in service told, which others could come to have; "
    "from now on it is its issuer and subject: %s. Nobody is bound yet: have each sign in, and bind what the page then "
    "shows by `cairn clients bind CLIENT --issuer … --subject …`. An administrator's key works at the API until then"
)


def upgrade() -> None:
    op.add_column("clients", sa.Column("oidc_issuer", sa.Text(), nullable=True), schema="app")
    op.add_column("clients", sa.Column("oidc_subject", sa.Text(), nullable=True), schema="app")
    op.create_unique_constraint(
        op.f("uq_clients_oidc_issuer_oidc_subject"), "clients", ["oidc_issuer", "oidc_subject"], schema="app"
    )
    op.create_check_constraint(
        op.f("ck_clients_bound_by_both"), "clients", "(oidc_issuer is null) = (oidc_subject is null)", schema="app"
    )
    # Which sessions were opened by such a name is not known: everybody signs in again.
    op.execute("delete from app.console_sessions")
    op.drop_column("console_sessions", "pending", schema="app")
    op.alter_column("console_sessions", "client_id", nullable=False, schema="app")
    if named := op.get_bind().execute(sa.text(BY_NAME)).scalars().all():
        log.warning(TOLD, ", ".join(named))


def downgrade() -> None:
    """The release before signs people in by name again; what was opened by a pair ends here."""
    op.execute("delete from app.console_sessions")
    op.alter_column("console_sessions", "client_id", nullable=True, schema="app")
    op.add_column("console_sessions", sa.Column("pending", postgresql.JSONB(), nullable=True), schema="app")
    for constraint in ("ck_clients_bound_by_both", "uq_clients_oidc_issuer_oidc_subject"):
        op.drop_constraint(constraint, "clients", schema="app")
    for column in ("oidc_issuer", "oidc_subject"):
        op.drop_column("clients", column, schema="app")
