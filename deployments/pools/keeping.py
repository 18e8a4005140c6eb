"""Merges a release's base job template with the one that a pool has, so that what operators chose there stays. Pure.

A template carries digests of what its release says. What still has its digest follows the next release; what has
another was chosen, by an option of a rollout or in Prefect's UI, and stays. Templates of earlier releases carry none:
of those the values of variables stay, and the rest follows the release.
"""

import copy
import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

WRITTEN = "cairn_written"  # beside `variables` and `job_configuration`; Prefect carries it and asks nothing of it
PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")
# Earlier releases wrote the path of a server's own clone there; workers know theirs.
FOREIGN_LAUNCHER = re.compile(r"deployments/warm/launcher\.py")
CONFIGURATION, DEFAULT, ENVIRONMENT = "job_configuration", "default", "env"  # kinds of parts, before a dot
COMMAND = f"{DEFAULT}.command"
Template = dict[str, Any]


def signed(template: Template) -> Template:
    """Return the release's template with the digests of what it says, for later rollouts to see what was chosen."""
    return template | {WRITTEN: {name: _digest(value) for name, value in _parts(template)}}


def merged(wanted: Template, found: Mapping[str, Any], said: Collection[str]) -> Template:
    """Return what the pool should have. `said` names the parts that somebody chooses now; all else that was chosen
    before stays.
    """
    content, written = copy.deepcopy(wanted), found.get(WRITTEN)
    variables = content["variables"]["properties"]
    for name, value in _parts(found):
        if name in said or not _was_chosen(name, value, written):
            continue
        kind, _, what = name.partition(".")
        if kind == CONFIGURATION:
            content["job_configuration"][what] = copy.deepcopy(value)
        elif kind == DEFAULT and what in variables:
            variables[what]["default"] = copy.deepcopy(value)
        elif kind == ENVIRONMENT and ENVIRONMENT in variables:
            variables[ENVIRONMENT].setdefault("default", {})[what] = value
    _keep_used(content, found)
    return content


def _was_chosen(name: str, value: Any, written: Mapping[str, str] | None) -> bool:
    """Whether this is not what a release said."""
    if name == COMMAND and isinstance(value, str) and FOREIGN_LAUNCHER.search(value):
        return False
    if written is None:
        return not name.startswith(CONFIGURATION)
    return written.get(name) != _digest(value)


def _keep_used(content: Template, found: Mapping[str, Any]) -> None:
    """Keep variables that operators declared and their job configuration names: Prefect refuses it without them."""
    variables, known = content["variables"]["properties"], found.get("variables", {}).get("properties", {})
    used = PLACEHOLDER.findall(json.dumps(content["job_configuration"]))
    variables |= {name: copy.deepcopy(known[name]) for name in used if name in known and name not in variables}


def _parts(template: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What may be chosen: fields of the job configuration, values of variables, and variables of the environment."""
    for name, value in (template.get("job_configuration") or {}).items():
        yield f"{CONFIGURATION}.{name}", value
    for name, field in template.get("variables", {}).get("properties", {}).items():
        if name == ENVIRONMENT:
            for variable, value in (field.get("default") or {}).items():
                yield f"{ENVIRONMENT}.{variable}", value
        elif "default" in field:
            yield f"{DEFAULT}.{name}", field["default"]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
