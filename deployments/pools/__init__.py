"""Base job templates of the work pools: a file for each type of worker, filled in for a pool."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

from flows.segments import GDAL, LIGHT

PREFERRED = {LIGHT: "process", GDAL: "process"}
TYPES = ("process",)
LAUNCHER = Path(__file__).resolve().parent.parent / "warm" / "launcher.py"


class UnknownType(ValueError):
    """There is no template for workers of this type."""


def template(kind: str, pool: str, *, image: str | None = None, warm: bool = False) -> dict[str, Any]:
    """The template of a pool that is served by workers of this type.

    With `warm`, process workers of this machine fork runs through the launcher.
    """
    if kind not in TYPES:
        raise UnknownType(f"There is no template for pools of type {kind!r}. Known types: {', '.join(TYPES)}.")
    content: dict[str, Any] = json.loads((Path(__file__).parent / f"{kind}.json").read_text())
    variables = content["variables"]["properties"]
    if warm and kind == "process":
        variables["command"]["default"] = shlex.join([sys.executable, "-I", "-S", str(LAUNCHER)])
    return content
