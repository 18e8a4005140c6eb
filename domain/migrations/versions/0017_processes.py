"""What partners may have done; requests of a platform and events of all, in the order in which they came."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

PROCESSES = """
create view api.processes as
select process_id, data_type, operation, title, description, version, inputs
from app.processes
"""

# For operators, who read every platform. Through the requests, whose rows the reader must be allowed to see.
RECENT_EVENTS = """
create view api.recent_events as
select e.event_id, e.at, e.kind, e.actor, e.request_id, e.run_id, e.details
from app.requests r
join app.events e on e.request_id = r.request_id
"""


def upgrade() -> None:
    op.create_table(
        "processes",
        sa.Column("process_id", sa.Text(), nullable=False),
        sa.Column("data_type", sa.Text(), nullable=False),
        sa.Column("operation", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("inputs", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.PrimaryKeyConstraint("process_id", name=op.f("pk_processes")),
        schema="app",
    )
    op.execute("grant select, insert, update, delete on app.processes to cairn_app")
    op.execute(PROCESSES)
    op.execute(RECENT_EVENTS)
    op.execute("grant create on schema api to cairn_views")
    op.execute("alter view api.recent_events owner to cairn_views")  # so that row-level security holds for its readers
    op.execute("revoke create on schema api from cairn_views")
    op.execute("grant select on api.processes, api.recent_events to cairn_gateway")
    op.create_index("ix_requests_of_platform", "requests", ["platform_id", "created_at", "request_id"], schema="app")


def downgrade() -> None:
    op.drop_index("ix_requests_of_platform", "requests", schema="app")
    op.execute("drop view api.recent_events")
    op.execute("drop view api.processes")
    op.drop_table("processes", schema="app")
