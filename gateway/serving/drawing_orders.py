"""What serving and its drawing processes tell each other: a line of JSON each way, and the bytes of the picture.

Both say what the other may take as it is, and no more: nothing is pickled, and no credential of ours goes over.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from domain.rules.rendering import Range

READY: Final = b"ready\n"  # what a drawing process says once it can be asked
LONGEST_LINE: Final = 65_536  # of what it says
_Told = Annotated[str, Field(pattern=r"^(content-type|content-bbox|content-crs|retry-after)$")]


class Order(BaseModel):
    """One picture: what was asked for, and the raster that it may be drawn from. `name` may be a secret."""

    model_config = ConfigDict(frozen=True)

    path: str
    query: str
    name: str
    driver: Literal["GTiff", "VRT"]
    environment: dict[str, Any]
    indexes: list[int]
    stretch: Range | None


class Drawn(BaseModel):
    """The answer's head. So many bytes follow it."""

    model_config = ConfigDict(frozen=True)

    status: int = Field(ge=200, le=599)
    headers: dict[_Told, Annotated[str, Field(pattern=r"^[ -~]*$", max_length=1000)]]
    size_bytes: int = Field(ge=0, le=2**31)
