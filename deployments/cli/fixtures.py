"""Fixture files: what nodes return, by node id, as `simulate` and part runs take it."""

from pathlib import Path
from typing import Any

import click


def read_fixtures(path: Path | None) -> dict[str, Any]:
    """What the file says, YAML or JSON; nothing without one."""
    import yaml

    if path is None:
        return {}
    try:
        given = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise click.UsageError(f"cannot read fixtures {path}: {error}") from None
    if not isinstance(given, dict):
        raise click.UsageError(f"fixtures {path}: a mapping from node ids to outputs is wanted")
    return given
