"""What happened in runs: every change of state of their nodes, kept over attempts, and what their tries measured."""

from datetime import datetime
from typing import cast
from uuid import UUID

from sqlalchemy import BigInteger, DateTime, ForeignKey, Index, Table, func, text
from sqlalchemy.dialects.postgresql import DOUBLE_PRECISION
from sqlalchemy.orm import Mapped, mapped_column

from domain.models.base import Base, Json
from domain.models.requests import Event
from domain.models.runs import Run

NUMBERED_WITH_EVENTS = "nextval('app.events_event_id_seq'::regclass)"


class NodeTransition(Base):
    """One change of one node's state, or its next try. A fan-out has as many as a task, with the counts of its items.

    Its number is of one row with those of events. It refers to its run without a foreign key: a heartbeat would share
    the run's lock, which its commit takes first and the heartbeat's attempt after it.
    """

    __tablename__ = "node_transitions"
    __table_args__ = (
        Index("ix_node_transitions_run", "run_id", "transition_id"),
        Index("ix_node_transitions_at", "at"),
        Index("ix_node_transitions_retries", "at", postgresql_where=text("retries > 0")),
    )

    transition_id: Mapped[int] = mapped_column(
        BigInteger, primary_key=True, autoincrement=False, server_default=text(NUMBERED_WITH_EVENTS)
    )
    run_id: Mapped[UUID]
    attempt: Mapped[int]
    node_id: Mapped[str]
    before: Mapped[str]
    state: Mapped[str]
    tries: Mapped[int] = mapped_column(server_default="0")
    retries: Mapped[int] = mapped_column(
        server_default="0"
    )  # tries beyond the first that this one tells of, items' too
    pool: Mapped[str | None]
    items: Mapped[Json | None]  # of a fan-out: counts by name
    seconds: Mapped[float | None] = mapped_column(DOUBLE_PRECISION)  # since the node began, at its end
    message: Mapped[str | None]
    problem: Mapped[Json | None]
    at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.clock_timestamp())


_TABLE = cast("Table", NodeTransition.__table__)
_TABLE.add_is_dependent_on(cast("Table", Event.__table__))  # whose sequence numbers its rows: it is made first


class RunMetric(Base):
    """What the tries of a run have measured under one name, summed; for each generation of what the run remembers."""

    __tablename__ = "run_metrics"

    run_id: Mapped[UUID] = mapped_column(ForeignKey(Run.run_id), primary_key=True)
    memory: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[float] = mapped_column(DOUBLE_PRECISION)
