"""Shares and caps of platforms; attempts wait in lanes that an index knows; workers say how much they do at once."""

import logging

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0028"
branch_labels = None
depends_on = None

log = logging.getLogger("cairn.migrations")
LANE = ["pool", "work_pool", "priority", "platform_id", "workflow_id"]

# Until here every platform could ask for any priority. Those that did are named: operators may let them again.
ASKED_FOR_MORE = "select distinct platform_id from app.requests where priority = 'high' and platform_id is not null"
TOLD = (
    "these platforms have submitted with priority high; from now on each platform's work waits by priority normal at "
    "most, and higher wishes are lowered: %s. To let one have it, run `cairn platforms set NAME --priority-cap high`"
)
# Only what is not over matters: a run of a plan, or with a sub-workflow, that has a node of gdal.
WORK_POOLS = """
    update app.runs r set work_pool = 'gdal'
    where r.state in ('pending', 'running') and (
        r.pool = 'gdal'
        or exists (select from app.run_nodes n where n.run_id = r.run_id and n.pool = 'gdal')
        or exists (
            select from jsonb_each(r.pins) pin join app.workflow_definitions d
                on d.workflow_id = pin.key and d.version = pin.value ->> 'version'
            where jsonb_path_exists(d.plan, '$.**.pool ? (@ == "gdal")')
        )
    )
"""
LANES = """
    update app.attempts a
    set pool = r.pool, work_pool = r.work_pool, workflow_id = r.workflow_id,
        platform_id = coalesce(q.platform_id, ''),
        priority = case when q.is_internal and q.client_id is null and r.priority = 'high' then 'urgent'
                        else r.priority end,
        started_at = case when a.state = 'started' then r.started_at end
    from app.runs r join app.requests q using (request_id)
    where r.run_id = a.run_id and a.state in ('ready', 'sending', 'sent', 'started')
"""


def upgrade() -> None:
    op.add_column("platforms", sa.Column("share", sa.Integer(), server_default="1", nullable=False), schema="app")
    op.add_column(
        "platforms", sa.Column("priority_cap", sa.Text(), server_default="normal", nullable=False), schema="app"
    )
    op.create_check_constraint(op.f("ck_platforms_share_is_some"), "platforms", "share between 1 and 100", schema="app")
    op.create_check_constraint(
        op.f("ck_platforms_cap_is_a_priority"), "platforms", "priority_cap in ('low', 'normal', 'high')", schema="app"
    )
    if asked := op.get_bind().execute(sa.text(ASKED_FOR_MORE)).scalars().all():
        log.warning(TOLD, ", ".join(sorted(asked)))
    op.add_column("pool_workers", sa.Column("at_once", sa.Integer(), nullable=True), schema="app")
    op.add_column("runs", sa.Column("work_pool", sa.Text(), server_default="light", nullable=False), schema="app")
    defaults = {"pool": "light", "work_pool": "light", "priority": "normal", "platform_id": "", "workflow_id": ""}
    for name, default in defaults.items():
        column = sa.Column(name, sa.Text(), server_default=default, nullable=False)
        op.add_column("attempts", column, schema="app")
    op.add_column("attempts", sa.Column("started_at", sa.DateTime(timezone=True), nullable=True), schema="app")
    op.execute(WORK_POOLS)
    op.execute(LANES)
    op.drop_index("ix_attempts_to_dispatch", table_name="attempts", schema="app")  # in the order of all: no lane's
    op.create_index(
        "ix_attempts_lanes",
        "attempts",
        [*LANE, "created_at"],
        schema="app",
        postgresql_where=sa.text("state = 'ready'"),
    )
    op.create_index(
        "ix_attempts_in_flight",
        "attempts",
        ["pool"],
        schema="app",
        postgresql_where=sa.text("state in ('sending', 'sent', 'started')"),
    )


def downgrade() -> None:
    op.create_index(
        "ix_attempts_to_dispatch",
        "attempts",
        ["created_at"],
        schema="app",
        postgresql_where=sa.text("state in ('ready', 'sending')"),
    )
    op.drop_index("ix_attempts_in_flight", table_name="attempts", schema="app")
    op.drop_index("ix_attempts_lanes", table_name="attempts", schema="app")
    for name in ("started_at", *reversed(LANE)):
        op.drop_column("attempts", name, schema="app")
    op.drop_column("runs", "work_pool", schema="app")
    op.drop_column("pool_workers", "at_once", schema="app")
    op.drop_constraint(op.f("ck_platforms_cap_is_a_priority"), "platforms", schema="app")
    op.drop_constraint(op.f("ck_platforms_share_is_some"), "platforms", schema="app")
    op.drop_column("platforms", "priority_cap", schema="app")
    op.drop_column("platforms", "share", schema="app")
