"""What Prefect's operators hold, as it was last seen."""

from sqlalchemy.orm import Mapped, mapped_column

from domain.models.base import Base, CreatedAt


class HeldPlace(Base):
    """A pool of Prefect's, or a queue as pool/queue, that gives nothing to workers: paused, or with a limit of 0."""

    __tablename__ = "held_places"

    place: Mapped[str] = mapped_column(primary_key=True)
    hold: Mapped[str]
    since: Mapped[CreatedAt]
