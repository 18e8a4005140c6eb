"""Lists, newest first, of which each page looks at so many entries and no more, whatever is wanted of them.

Who asks for what is rare would else have everything read that there ever was. A page that found less than it may hold
says where its look ended: the next one goes on from there. What is frequent, or has an index, fills its page before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import ColumnElement, Select, TextClause, select, text, tuple_
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute, aliased

from domain.models import Base
from domain.rules import paging
from domain.rules.paging import Position

Entity = TypeVar("Entity", bound=Base)
Row = TypeVar("Row")
Behind = TypeVar("Behind")
# The planner would rather read all of a table than follow an index a few thousand times, and tables grow.
BY_INDEX = text("""
    select set_config(name, 'off', true)
    from unnest(array['enable_seqscan', 'enable_hashjoin', 'enable_mergejoin']) as name
""")


async def by_index(session: AsyncSession) -> None:
    """Have what follows in this transaction find its rows by indexes, however few there seem to be."""
    await session.execute(BY_INDEX)


@dataclass(frozen=True)
class Listed(Generic[Row, Behind]):
    """A page, and where the next one begins; None where there is none."""

    rows: Sequence[Row]
    next: Behind | None


@dataclass(frozen=True)
class Look(Generic[Entity]):
    """The newest entries that meet what an index knows, from behind the last that was shown."""

    model: type[Entity]
    at: InstrumentedAttribute[Any]
    id: InstrumentedAttribute[Any]
    after: Position | None
    conditions: Sequence[ColumnElement[bool] | TextClause] = ()
    of: tuple[InstrumentedAttribute[Any], Any] | None = None  # a column that an index has before the others, and what

    @property
    def looked_at(self) -> Select[Entity]:
        query = select(self.model).where(*self.conditions)
        if self.of is not None:  # as an order that only its own index has: the planner may think more of the others'
            column, value = self.of
            query = query.where(column >= value, column <= value).order_by(column.desc())
        if self.after is not None:
            query = query.where(tuple_(self.at, self.id) < tuple_(self.after.at, self.after.id))
        return query.order_by(self.at.desc(), self.id.desc()).limit(paging.LOOK)

    def shown(self) -> type[Entity]:
        """The entries that are looked at, for a query that says which of them are wanted."""
        return aliased(self.model, self.looked_at.subquery())

    async def next(
        self, session: AsyncSession, rows: Sequence[Any], limit: int, last: Position | None
    ) -> Position | None:
        """Where the next page begins: behind the last that is shown of a full page, else where the look ended."""
        if len(rows) >= limit:
            return last
        ended = self.looked_at.with_only_columns(self.at, self.id).offset(paging.LOOK - 1).limit(1)
        row = (await session.execute(ended)).first()
        return None if row is None else Position(*row)
