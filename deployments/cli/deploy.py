"""deploy: roll out workflows."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deployments.cli.output import fail, json_option, print_json
from deployments.stack.state import REPOSITORY

if TYPE_CHECKING:
    from deployments.rollout.apply import Options
    from deployments.rollout.report import Change
    from flows.compiler import Plan

POOLS = ("light", "gdal")
QUEUES = ("high", "normal", "low")


class Choices(click.ParamType[object]):
    """`NAME=VALUE,…`: what is chosen for pools, in an option or in its environment variable."""

    def __init__(self, what: str, names: Sequence[str]) -> None:
        self.name, self.names = what, names

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> object:
        if not isinstance(value, str):
            return value
        pairs = [part.partition("=") for part in value.split(",") if part]
        for name, sign, chosen in pairs:
            if not sign or not chosen or name not in self.names:
                self.fail(f"{value!r} should read {self.names[0]}={self.name.upper()}, for one of {self.names}")
        return {name: chosen for name, _, chosen in pairs}


class Limits(Choices):
    """The same with numbers; `none` takes a limit away."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> object:
        chosen = super().convert(value, param, ctx)
        if not isinstance(value, str) or not isinstance(chosen, dict):
            return chosen
        for name, number in chosen.items():
            if number != "none" and not (number.isascii() and number.isdecimal() and int(number)):
                self.fail(f"the limit of {name} is {number!r}; it should be a number above 0, or none")
        return {name: None if number == "none" else int(number) for name, number in chosen.items()}


LIMITED = (*POOLS, *(f"{pool}/{queue}" for pool in POOLS for queue in QUEUES))


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
@click.option(
    "--storage-account",
    envvar="CAIRN_STORAGE_ACCOUNT_URL",
    help="Also save the block azure-zones/cairn, which names this account, as in https://name.blob.core.windows.net.",
)
@click.option("--container-prefix", envvar="CAIRN_STORAGE_CONTAINER_PREFIX", default="cairn-", show_default=True)
@click.option("--warm", is_flag=True, help="Have workers of this machine fork runs from their zygote.")
@click.option(
    "--pool-type",
    type=Choices("type", POOLS),
    envvar="CAIRN_POOL_TYPES",
    help="Which workers serve the pools, as in light=process,gdal=kubernetes.",
)
@click.option(
    "--image",
    type=Choices("image", POOLS),
    envvar="CAIRN_POOL_IMAGES",
    help="Images for pools whose workers start containers, as in gdal=registry/cairn-worker-gdal:1.4.",
)
@click.option(
    "--limit",
    type=Limits("number", LIMITED),
    envvar="CAIRN_POOL_LIMITS",
    help="Most runs at once of a pool or a queue, as in gdal=8,gdal/low=2; none takes a limit away.",
)
@click.option("--replace-pools", is_flag=True, help="Delete and make anew a pool whose type is another.")
@click.option("--prune", is_flag=True, help="Remove deployments whose workflow is gone.")
@json_option
def deploy(
    workflows: Path,
    write: bool,
    check: bool,
    storage_root: str | None,
    storage_account: str | None,
    container_prefix: str,
    warm: bool,
    pool_type: dict[str, str] | None,
    image: dict[str, str] | None,
    limit: dict[str, int | None] | None,
    replace_pools: bool,
    prune: bool,
    as_json: bool,
) -> None:
    """Create work pools, queues, limits, automations and one deployment per workflow, on the running stack or at
    PREFECT_API_URL.

    Says what it created, changed and found unchanged. Workflows whose handlers are only planned are named and left out.
    """
    from deployments import deploy as rollout

    plans, skipped = rollout.runnable_plans(workflows)
    file = REPOSITORY / "prefect.yaml"
    if check:
        if not file.exists() or file.read_text() != rollout.prefect_yaml(plans):
            raise SystemExit("prefect.yaml is stale. Run `cairn deploy --write` and commit it.")
        click.echo("prefect.yaml is current")
    elif write:
        file.write_text(rollout.prefect_yaml(plans))
        click.echo("wrote prefect.yaml")
    else:
        from deployments.rollout.apply import Options
        from deployments.rollout.blocks import AzurePlace

        account = AzurePlace(storage_account, container_prefix, _ca_file()) if storage_account else None
        options = Options(storage_root, account, pool_type or {}, image or {}, limit or {}, warm, prune, replace_pools)
        _show(_apply(plans, options), skipped, as_json=as_json)


def _ca_file() -> Path | None:
    name = os.environ.get("CAIRN_STORAGE_CA_FILE")
    return Path(name) if name else None


def _show(changes: "Sequence[Change]", skipped: dict[str, list[str]], *, as_json: bool) -> None:
    from deployments.rollout.report import summary

    if as_json:
        print_json({"changes": [change.as_json() for change in changes], "skipped": skipped})
        return
    for change in changes:
        click.echo(change)
    for name, reasons in skipped.items():
        click.echo(f"left out   {name} ({'; '.join(reasons)})")
    click.echo(summary(changes))


def _apply(plans: "Sequence[Plan]", options: "Options") -> "Sequence[Change]":
    """Deploy to the server that the environment names, else to the running stack's."""
    import asyncio
    from dataclasses import replace

    if "PREFECT_API_URL" not in os.environ:
        from deployments.cli.clients import running_stack

        stack = running_stack()
        os.environ["PREFECT_API_URL"] = f"{stack.url('prefect')}/api"
        os.environ["PREFECT_API_AUTH_STRING"] = stack.credentials["prefect"]["auth_string"]
        own = None if options.storage_account else str(stack.state.storage)
        options = replace(options, warm=True, storage_root=options.storage_root or own)  # its workers have zygotes
    from deployments.pools import UnknownType
    from deployments.rollout.apply import apply
    from deployments.rollout.pools import WrongType

    try:
        return asyncio.run(apply(plans, options))
    except (WrongType, UnknownType) as error:
        fail(str(error))
