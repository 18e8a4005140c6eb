"""What people say about an asset's layer, and what of it is published."""

from sqlalchemy import ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from domain.models.assets import Asset
from domain.models.base import Base, CreatedAt, Json, Moment


class LayerMetadata(Base):
    """Title, description and the like, as last edited. Nobody outside sees it before it is published."""

    __tablename__ = "layer_metadata"

    asset_id: Mapped[str] = mapped_column(ForeignKey(Asset.asset_id), primary_key=True)
    content: Mapped[Json]
    updated_at: Mapped[CreatedAt]
    updated_by: Mapped[str]


class LayerCatalog(Base):
    """The metadata that is published: a copy, so that editing changes nothing that readers see."""

    __tablename__ = "layer_catalog"

    asset_id: Mapped[str] = mapped_column(ForeignKey(Asset.asset_id), primary_key=True)
    content: Mapped[Json]
    published_at: Mapped[CreatedAt]
    published_by: Mapped[str]
    external_at: Mapped[Moment]  # when it last went into the external database; none where it may not stand there
