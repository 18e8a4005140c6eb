"""Base job templates of the work pools: a file for each type of worker, filled in for a pool."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from deployments.pools import keeping
from flows.pools import POOLS

KINDS = ("cairn-inline", "process", "docker", "kubernetes", "azure-container-instance")
# What a flow run tells the domain of where it runs; read by `flows.settings`.
JOB_TEMPLATE, IMAGE = "CAIRN_JOB_TEMPLATE", "CAIRN_IMAGE"
CONFINEMENT = "CAIRN_TRY_CONFINEMENT"
FORK_RUNS = "CAIRN_FORK_RUNS"  # `off` in a pool's environment: process workers start each run cold


# Parts of a template that options of a rollout choose.
IMAGE_PARTS = ("default.image",)
FORKING_PARTS = (keeping.COMMAND, f"{keeping.ENVIRONMENT}.{FORK_RUNS}")


class UnknownType(ValueError):
    """There is no template for workers of this type."""


def template(kind: str, pool: str, *, image: str | None = None, forks: bool = True) -> dict[str, Any]:
    """The template of a pool that is served by workers of this type.

    Process workers of ours fork runs from their zygote unless `forks` is false. A container of its own has nothing to
    fork from: there a run starts as its worker says.
    """
    if kind not in KINDS:
        raise UnknownType(f"There is no template for pools of type {kind!r}. Known types: {', '.join(KINDS)}.")
    content = keeping.signed(_of_the_release(kind, pool))
    told = content["variables"]["properties"].get("env", {}).get("default", {})
    if image:
        choose_image(content, image)
    if not forks and kind == "process":
        told[FORK_RUNS] = "off"
    return content


def _of_the_release(kind: str, pool: str) -> dict[str, Any]:
    """The template as it is where nobody chooses anything."""
    wanted = POOLS[pool]
    content: dict[str, Any] = json.loads((Path(__file__).parent / f"{kind}.json").read_text())
    variables = content["variables"]["properties"]
    for name, value in wanted.sizes.get(kind, {}).items():
        variables[name]["default"] = value
    told = {JOB_TEMPLATE: kind}
    if "image" in variables and wanted.is_confined:
        told[CONFINEMENT] = "required"
    if "env" in variables:
        variables["env"]["default"] = variables["env"].get("default", {}) | told
    choose_image(content, wanted.image)
    return content


def choose_image(content: dict[str, Any], image: str) -> None:
    """Have containers start from this image, where runs start in containers. Flow runs tell the domain which it is."""
    variables = content["variables"]["properties"]
    if "image" in variables:
        variables["image"]["default"] = variables["env"]["default"][IMAGE] = image


def beside(wanted: keeping.Template, found: Mapping[str, Any], said: Collection[str]) -> keeping.Template:
    """Return the wanted template with what was chosen before for a pool, but for the parts that are said now."""
    content = keeping.merged(wanted, found, {*said, f"{keeping.ENVIRONMENT}.{JOB_TEMPLATE}"})
    if image := content["variables"]["properties"].get("image", {}).get("default"):
        choose_image(content, image)
    return content
