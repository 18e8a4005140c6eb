"""Lets Prefect's scheduler write down the flow runs that a schedule asks for.

It inserts them in bulk, and hands in with each row the state that it writes afterwards, under the name of an attribute
of its model. SQLAlchemy 2.0 passed over that name; 2.1 refuses all rows, unless the attribute says what an insert makes
of it. Prefect 3.8 does not: no schedule of a deployment would ever make a run. A release that does is left alone.
"""

from collections.abc import MutableMapping
from typing import Any


def let_schedules_make_runs() -> None:
    """Have an insert pass over the state, as before. Prefect's models must be importable: not while they are."""
    from prefect.server.database.orm_models import FlowRun

    state: Any = FlowRun.__mapper__.all_orm_descriptors["state"]
    if getattr(state, "bulk_dml_setter", _passed_over) is None:
        state.bulk_dml_setter = _passed_over


def _passed_over(model: type[Any], row: MutableMapping[str, Any], value: Any) -> None:
    """Make nothing of the value: it is no column of the row."""
