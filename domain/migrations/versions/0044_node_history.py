"""What happened to nodes stays: each change of state and each further try, whatever attempts come after."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0044"
down_revision = "0046"
branch_labels = None
depends_on = None

OF_REQUESTS = """
select e.event_id, run.run_id, e.request_id, e.kind, e.actor, e.details, e.at
from app.requests r
join app.runs run on run.request_id = r.request_id
join app.events e on e.request_id = r.request_id and (e.run_id = run.run_id or e.run_id is null)
"""
OF_NODES = """
select t.transition_id, t.run_id, r.request_id, 'node.' || t.state, null, jsonb_strip_nulls(jsonb_build_object(
        'node', t.node_id, 'attempt', t.attempt, 'before', t.before, 'tries', nullif(t.tries, 0), 'pool', t.pool,
        'items', t.items, 'retries', nullif(t.retries, 0), 'seconds', t.seconds, 'message', t.message,
        'problem', t.problem)), t.at
from app.requests r
join app.runs run on run.request_id = r.request_id
join app.node_transitions t on t.run_id = run.run_id
"""
NODES = """
select n.run_id, n.position, n.node_id, n.type, n.handler, n.pool, n.state, n.tries, n.fraction, n.message,
       n.items_total, n.items_done, n.items_failed, n.problem, n.started_at, n.finished_at{more}
from app.requests r
join app.runs run on run.request_id = r.request_id
join app.run_nodes n on n.run_id = run.run_id
"""


def upgrade() -> None:
    op.add_column("run_nodes", sa.Column("items_retried", sa.Integer(), nullable=True), schema="app")
    op.create_table(
        "node_transitions",
        sa.Column(
            "transition_id",
            sa.BigInteger(),
            server_default=sa.text("nextval('app.events_event_id_seq'::regclass)"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("before", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("tries", sa.Integer(), server_default="0", nullable=False),
        sa.Column("retries", sa.Integer(), server_default="0", nullable=False),
        sa.Column("pool", sa.Text(), nullable=True),
        sa.Column("items", postgresql.JSONB(), nullable=True),
        sa.Column("seconds", postgresql.DOUBLE_PRECISION(), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("problem", postgresql.JSONB(), nullable=True),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.PrimaryKeyConstraint("transition_id", name=op.f("pk_node_transitions")),
        schema="app",
    )
    table, where = "node_transitions", sa.text("retries > 0")
    op.create_index("ix_node_transitions_run", table, ["run_id", "transition_id"], schema="app")
    op.create_index("ix_node_transitions_at", table, ["at"], schema="app")
    op.create_index("ix_node_transitions_retries", table, ["at"], schema="app", postgresql_where=where)
    op.execute("grant select, insert, delete on app.node_transitions to cairn_app")
    op.execute("grant select on app.node_transitions to cairn_views")
    op.execute(f"create or replace view api.job_events as {OF_REQUESTS} union all {OF_NODES}")
    op.execute(f"create or replace view api.job_nodes as {NODES.format(more=', n.items_retried')}")


def downgrade() -> None:
    op.execute(f"create or replace view api.job_events as {OF_REQUESTS}")
    op.execute("drop view api.job_nodes")
    op.execute(f"create view api.job_nodes as {NODES.format(more='')}")
    op.execute("alter view api.job_nodes owner to cairn_views")
    op.execute("grant select on api.job_nodes to cairn_app, cairn_gateway")
    op.drop_table("node_transitions", schema="app")
    op.drop_column("run_nodes", "items_retried", schema="app")
