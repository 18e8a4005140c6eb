"""Base job templates of the work pools: a file for each type of worker, filled in for a pool."""

import copy
import json
import shlex
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from flows.pools import POOLS

KINDS = ("cairn-inline", "process", "docker", "kubernetes", "azure-container-instance")
# What a flow run tells the domain of where it runs; read by `flows.settings`.
JOB_TEMPLATE, IMAGE = "CAIRN_JOB_TEMPLATE", "CAIRN_IMAGE"
CONFINEMENT = "CAIRN_TRY_CONFINEMENT"
LAUNCHER = Path(__file__).resolve().parent.parent / "warm" / "launcher.py"


class UnknownType(ValueError):
    """There is no template for workers of this type."""


def keeping(wanted: dict[str, Any], found: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return the wanted template with these variables' values taken from another: nobody asked to change them."""
    content = copy.deepcopy(wanted)
    variables, known = content["variables"]["properties"], found.get("variables", {}).get("properties", {})
    for name in names:
        if name in variables and "default" in known.get(name, {}):
            variables[name]["default"] = known[name]["default"]
    if "image" in names and "image" in variables:
        variables["env"]["default"][IMAGE] = variables["image"]["default"]
    return content


def template(kind: str, pool: str, *, image: str | None = None, warm: bool = False) -> dict[str, Any]:
    """The template of a pool that is served by workers of this type.

    With `warm`, process workers of this machine fork runs through the launcher. A container of its own has nothing to
    fork from: there a run starts as its worker says.
    """
    if kind not in KINDS:
        raise UnknownType(f"There is no template for pools of type {kind!r}. Known types: {', '.join(KINDS)}.")
    wanted = POOLS[pool]
    content: dict[str, Any] = json.loads((Path(__file__).parent / f"{kind}.json").read_text())
    variables = content["variables"]["properties"]
    for name, value in wanted.sizes.get(kind, {}).items():
        variables[name]["default"] = value
    told = {JOB_TEMPLATE: kind}
    if "image" in variables:
        variables["image"]["default"] = told[IMAGE] = image or wanted.image
        if wanted.is_confined:
            told[CONFINEMENT] = "required"
    if "env" in variables:
        variables["env"]["default"] = variables["env"].get("default", {}) | told
    if warm and kind == "process":
        variables["command"]["default"] = shlex.join([sys.executable, "-I", "-S", str(LAUNCHER)])
    return content
