"""The platform that operators' own runs make assets of: never active, without credentials, never cleared."""

from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

TAKEN = "select count(*) from app.{table} where platform_id = 'internal'"

PLATFORM = """
insert into app.platforms (platform_id, display_name, required_refs, version_ref, is_active)
values ('internal', 'Operators'' own runs', '{request,workflow}', 'version', false)
on conflict (platform_id) do update set display_name = excluded.display_name, required_refs = excluded.required_refs,
    optional_refs = '{}', version_ref = excluded.version_ref, field_mapping = '{}', is_active = false,
    approvals_required = 1, approval_days = null
"""

# The rules refuse it first; a fault in them must not make public what nobody may publish.
CHECKS = {
    "platforms": ("scratch_is_nobodys", "platform_id <> 'internal' or not is_active"),
    "assets": ("scratch_is_never_cleared", "platform_id <> 'internal' or clearance = 'uncleared'"),
    "clients": ("scratch_has_no_client", "platform_id is distinct from 'internal'"),
}


def upgrade() -> None:
    connection = op.get_bind()
    taken = {table: connection.exec_driver_sql(TAKEN.format(table=table)).scalar() for table in ("assets", "clients")}
    if any(taken.values()):
        raise RuntimeError(
            f"The platform id 'internal' is reserved from this version on, and a platform of that name has "
            f"{taken['assets']} assets and {taken['clients']} clients. Register it under another id before the upgrade."
        )
    op.execute(PLATFORM)
    for table, (name, rule) in CHECKS.items():
        op.create_check_constraint(name, table, rule, schema="app")


def downgrade() -> None:
    for table, (name, _) in CHECKS.items():
        op.drop_constraint(f"ck_{table}_{name}", table, schema="app")
    # What operators' runs made stays known, of a platform that still takes nothing.
    op.execute(
        "delete from app.platforms p where platform_id = 'internal'"
        " and not exists (select from app.assets a where a.platform_id = p.platform_id)"
    )
