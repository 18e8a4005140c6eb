"""What a run produced: files by zone and name, with what is needed to trust and place them."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Zone = Literal["bronze", "silver", "external"]
Bounds = tuple[float, float, float, float]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Artifact(BaseModel):
    """One file that a run leaves behind. Readers see nothing of it before an approval."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: str = Field(pattern=r"^[a-z][a-z0-9_]{0,62}$", description="What it is for: `cog`, `stac_item`, `thumbnail`…")
    zone: Zone
    name: str = Field(max_length=900, description="container/path inside the zone")
    media_type: str = Field(max_length=200)
    sha256: Sha256
    size_bytes: int = Field(ge=0)
    bbox: Bounds | None = Field(default=None, description="West, south, east, north in degrees")
