"""The handler that the attempts are made by, and the holes that a test may plant before it is confined.

A hole is a part of the confinement that is switched off in the fork that the test asks for, and in no other.
"""

import os
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from domain.contracts.artifacts import Artifact
from domain.contracts.names import GivenName, MadeName
from flows.handlers import registry
from flows.handlers.context import Context
from flows.handlers.registry import handler
from flows.tries import confinement, process_child, resource_limits, seccomp_filter
from tests.support.hostile_child import (  # noqa: F401 - they register attempts
    of_blobs,
    of_descriptors,
    of_files,
    of_kernel,
    of_network,
    of_processes,
)
from tests.support.hostile_child.attempts import ATTEMPTS, Aims, made

NAME, CLAIM = "hostile.child", "hostile.claim"
real_confine, real_limit, real_install = process_child.confine, resource_limits.limit, seccomp_filter.install


class Order(BaseModel):
    source: GivenName = ""
    aims: dict[str, Any] = {}
    kinds: list[str] = []
    only: str = ""
    without: list[str] = []


class Claim(BaseModel):
    source: GivenName
    claimed: dict[str, Any]


class Made(BaseModel):
    source: GivenName
    product: MadeName
    artifacts: list[Artifact] = []


class Outcome(BaseModel):
    outcome: dict[str, dict[str, str]] = {}


def attack(params: Order, context: Context) -> Outcome:
    """Make all attempts of these classes, or all there are."""
    os.chdir(context.workdir)
    aims = Aims(**params.aims)
    kinds = [kind for kind in ATTEMPTS if kind in (params.kinds or ATTEMPTS)]
    chosen = {kind: {name: one for name, one in ATTEMPTS[kind].items() if params.only in ("", name)} for kind in kinds}
    return Outcome(outcome={kind: made(attempts, aims, context) for kind, attempts in chosen.items()})


def claim(params: Claim, context: Context) -> Made:
    """Say that it was made, unchecked."""
    artifacts = [Artifact.model_construct(**one) for one in params.claimed["artifacts"]]
    return Made.model_construct(**{**params.claimed, "artifacts": artifacts})


def confine(order: Any, channel: Any) -> str | None:
    """As the real one, but for what the try is ordered to be without."""
    without = order["try"]["params"].get("without", [])
    if "landlock" in without:
        confinement._restrict_files = lambda *_: None
    if "seccomp" in without:
        confinement.Confinement._filter_calls = lambda *_: ["seccomp", "threads"]  # type: ignore[method-assign]
    if "threads" in without:
        seccomp_filter.install = _install_uncounted
    if "limits" not in without:
        real_limit(order["limits"])
    return real_confine(order, channel)


def _install_uncounted(*, counted: bool) -> int:
    """Hand over something that is no listener."""
    real_install(counted=False)
    return os.open(os.devnull, os.O_RDONLY)


def _limit_later(limits: Mapping[str, int]) -> None:
    """When it is known whether there are to be any."""


def declare() -> None:
    """Make the handler known to this process, and the holes possible."""
    process_child.confine, resource_limits.limit = confine, _limit_later
    handler(NAME, pool="gdal", example=Outcome())(attack)
    handler(CLAIM, pool="gdal", example=Made(source="in/a.tif", product="assets/a/0-r1/a1/x"))(claim)
    registry.registry.cache_clear()


def forget() -> None:
    """Undo it."""
    process_child.confine, resource_limits.limit = real_confine, real_limit
    for name in (NAME, CLAIM):
        registry._declared.pop(name)
    registry.registry.cache_clear()
