"""What a run produced: files by zone and name, with what is needed to trust and place them."""

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, model_validator

from domain.contracts.names import MadeName, Taken, foreign

# What is staged for the catalogue names internal places: it is read at approval and never leaves by any other way.
STAGED_ITEMS: Final = ("stac_item", "stac_items")
STAGED_WORDS: Final = "stac_collection"

Zone = Literal["bronze", "silver", "external"]
Bounds = tuple[float, float, float, float]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Artifact(BaseModel):
    """One file that a run leaves behind. Readers see nothing of it before an approval."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: str = Field(pattern=r"^[a-z][a-z0-9_]{0,62}$", description="What it is for: `cog`, `stac_item`, `thumbnail`…")
    zone: Zone
    name: MadeName = Field(description="container/path inside the zone")
    media_type: str = Field(max_length=200)
    sha256: Sha256
    size_bytes: int = Field(ge=0)
    bbox: Bounds | None = Field(default=None, description="West, south, east, north in degrees")

    @model_validator(mode="after")
    def _is_a_product(self, info: ValidationInfo) -> "Artifact":
        """Refuse, from a process that may be taken over, files outside of silver and files that the catalogue reads."""
        is_staged = self.role in {*STAGED_ITEMS, STAGED_WORDS}
        if isinstance(info.context, Taken) and (self.zone != "silver" or is_staged):
            raise foreign(f"{self.role} {self.zone}/{self.name}")
        return self
