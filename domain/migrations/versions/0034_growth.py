"""What is asked again and again is found by index, however much is past: queues, lists, the audit."""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0032"
branch_labels = None
depends_on = None

WAITING = "is_listed and approval = 'pending_review' and processing = 'completed'"
WORKING = "is_listed and processing in ('pending', 'processing')"
ENDED_BADLY = "is_listed and processing in ('failed', 'cancelled')"
REJECTED = "is_listed and approval = 'rejected'"
TO_STOP = "disposed_at is null and flow_run_id is not null and state = 'fenced'"
PLACE = ["created_at", "request_id"]
# Each with its table, its columns, and of which rows it is.
INDEXES = (
    ("ix_revisions_listed", "revisions", PLACE, "is_listed"),
    ("ix_revisions_waiting", "revisions", PLACE, WAITING),
    ("ix_revisions_working", "revisions", PLACE, WORKING),
    ("ix_revisions_ended_badly", "revisions", PLACE, ENDED_BADLY),
    ("ix_revisions_rejected", "revisions", PLACE, REJECTED),
    ("ix_requests_active", "requests", PLACE, "status in ('pending', 'processing')"),
    ("ix_callbacks_undelivered", "callbacks", ["state", "created_at", "callback_id"], "state <> 'delivered'"),
    ("ix_attempts_to_stop", "attempts", ["finished_at"], TO_STOP),
    ("ix_audit_actor", "audit", ["actor", "audit_id"], None),
    ("ix_audit_action", "audit", ["action", "audit_id"], None),
)
# Lists of what is to be decided show the newest revision of each version, and nothing of what is deleted or scratch.
UNLISTED = """
    update app.revisions r set is_listed = false
    from app.asset_versions v join app.assets a on a.asset_id = v.asset_id
    where v.asset_id = r.asset_id and v.ordinal = r.ordinal
        and (r.revision <> v.newest_revision or v.deleted_at is not null or a.platform_id = 'internal')
"""
# Of three columns that follow from each other the planner believes each by itself, and takes what is rare for frequent.
STANDINGS = "create statistics app.revision_standings (mcv) on is_listed, approval, processing from app.revisions"


def upgrade() -> None:
    op.add_column(
        "revisions", sa.Column("is_listed", sa.Boolean(), server_default="true", nullable=False), schema="app"
    )
    op.execute(UNLISTED)
    for name, table, columns, condition in INDEXES:
        where = None if condition is None else sa.text(condition)
        op.create_index(name, table, columns, schema="app", postgresql_where=where)
    op.drop_index("ix_audit_subject", "audit", schema="app")
    op.create_index(
        "ix_audit_subject",
        "audit",
        ["subject", "audit_id"],
        schema="app",
        postgresql_ops={"subject": "text_pattern_ops"},
    )
    op.execute(STANDINGS)
    op.execute("analyze app.revisions")


def downgrade() -> None:
    op.execute("drop statistics app.revision_standings")
    op.drop_index("ix_audit_subject", "audit", schema="app")
    op.create_index("ix_audit_subject", "audit", ["subject"], schema="app")
    for name, table, _, _ in reversed(INDEXES):
        op.drop_index(name, table, schema="app")
    op.drop_column("revisions", "is_listed", schema="app")
