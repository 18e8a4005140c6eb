"""deploy: roll out workflows."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deployments.cli.output import json_option, print_json
from deployments.stack.state import REPOSITORY

if TYPE_CHECKING:
    from flows.compiler import Plan


@click.command()
@click.option(
    "--workflows",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=REPOSITORY / "workflows",
    envvar="CAIRN_WORKFLOWS_DIR",
)
@click.option("--write", is_flag=True, help="Write prefect.yaml instead of deploying.")
@click.option("--check", is_flag=True, help="Fail if prefect.yaml is stale; deploy nothing.")
@click.option("--storage-root", help="Also save the block local-zones/cairn, which names this folder.")
@click.option("--warm", is_flag=True, help="Have workers of this machine fork runs from their zygote.")
@json_option
def deploy(workflows: Path, write: bool, check: bool, storage_root: str | None, warm: bool, as_json: bool) -> None:
    """Create work pools and one deployment per workflow, on the running stack or at PREFECT_API_URL.

    Workflows whose handlers are only planned are named and left out.
    """
    from deployments import deploy as rollout

    plans, skipped = rollout.runnable_plans(workflows)
    file = REPOSITORY / "prefect.yaml"
    if check:
        if not file.exists() or file.read_text() != rollout.prefect_yaml(plans):
            raise SystemExit("prefect.yaml is stale. Run `cairn deploy --write` and commit it.")
        done = ["prefect.yaml is current"]
    elif write:
        file.write_text(rollout.prefect_yaml(plans))
        done = ["wrote prefect.yaml"]
    else:
        done = _apply(plans, storage_root, warm=warm)
    if as_json:
        print_json({"done": done, "skipped": skipped})
        return
    for line in done:
        click.echo(line)
    for name, reasons in skipped.items():
        click.echo(f"left out: {name} ({'; '.join(reasons)})")


def _apply(plans: "Sequence[Plan]", storage_root: str | None, *, warm: bool) -> list[str]:
    """Deploy to the server that the environment names, else to the running stack's."""
    import asyncio

    from deployments import deploy as rollout

    if "PREFECT_API_URL" not in os.environ:
        from deployments.cli.clients import running_stack

        stack = running_stack()
        storage_root = storage_root or str(stack.state.storage)
        os.environ["PREFECT_API_URL"] = f"{stack.url('prefect')}/api"
        os.environ["PREFECT_API_AUTH_STRING"] = stack.credentials["prefect"]["auth_string"]
        warm = True  # its workers have zygotes
    return asyncio.run(rollout.apply(plans, storage_root, warm=warm))
