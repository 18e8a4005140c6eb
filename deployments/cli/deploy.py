"""deploy: roll out workflows."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deployments.cli.aim import aim
from deployments.cli.output import fail, json_option, print_json
from deployments.cli.publishing import ADDRESS, Domain, DomainUnanswered, differing, known_domain, refuse_reused
from deployments.stack.state import REPOSITORY
from flows.pools import POOLS

if TYPE_CHECKING:
    from deployments.rollout.apply import Options
    from deployments.rollout.report import Change
    from flows.compiler import Plan


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
    """`NAME=NUMBER,…`: limits of pools; `none` takes a limit away."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> object:
        chosen = super().convert(value, param, ctx)
        if not isinstance(value, str) or not isinstance(chosen, dict):
            return chosen
        for name, number in chosen.items():
            if number != "none" and not (number.isascii() and number.isdecimal() and int(number)):
                self.fail(f"the limit of {name} is {number!r}; it should be a number above 0, or none")
        return {name: None if number == "none" else int(number) for name, number in chosen.items()}


NAMES = tuple(POOLS)
LIMITED = (*NAMES, *(f"{name}/{queue}" for name, pool in POOLS.items() for queue in pool.queues))


@click.command()
@click.option(
    "--workflows",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    envvar="CAIRN_WORKFLOWS_DIR",
    help="Folder of the workflows; else the running stack's, else the clone's.",
)
@click.option("--write", is_flag=True, help="Write prefect.yaml instead of deploying.")
@click.option("--check", is_flag=True, help="Fail if prefect.yaml is stale; deploy nothing.")
@click.option("--storage-root", help="Also save the block local-zones/cairn, which names this folder.")
@click.option(
    "--storage-account",
    envvar="CAIRN_STORAGE_ACCOUNT_URL",
    help="Also save the block azure-zones/cairn, which names this account, as in https://name.blob.core.windows.net.",
)
@click.option(
    "--container-prefix",
    envvar="CAIRN_STORAGE_CONTAINER_PREFIX",
    help="Before the names of the account's containers. Unsaid, a block keeps its own; a new one has `cairn-`.",
)
@click.option(
    "--warm/--no-warm",
    default=None,
    help="Whether process workers of `cairn worker start` fork runs from their zygote. Unsaid, a pool stays as it is; "
    "a new one forks.",
)
@click.option(
    "--pool-type",
    type=Choices("type", NAMES),
    envvar="CAIRN_POOL_TYPES",
    help=f"Which workers serve the pools {' and '.join(NAMES)}, as in {NAMES[0]}=process,{NAMES[-1]}=kubernetes.",
)
@click.option(
    "--image",
    type=Choices("image", NAMES),
    envvar="CAIRN_POOL_IMAGES",
    help=f"Images for pools whose workers start containers, as in {NAMES[-1]}=registry/{POOLS[NAMES[-1]].image}:1.4.",
)
@click.option(
    "--limit",
    type=Limits("number", LIMITED),
    envvar="CAIRN_POOL_LIMITS",
    help=f"Most runs at once of a pool or a queue, as in {NAMES[-1]}=8,{NAMES[-1]}/low=2; none takes a limit away.",
)
@click.option("--replace-pools", is_flag=True, help="Delete and make anew a pool whose type is another.")
@click.option("--prune", is_flag=True, help="Remove deployments whose workflow is gone.")
@click.option("--spare-faulty", is_flag=True, help="Leave workflows with faults out, and roll out the others.")
@json_option
def deploy(
    workflows: Path | None,
    write: bool,
    check: bool,
    storage_root: str | None,
    storage_account: str | None,
    container_prefix: str | None,
    warm: bool | None,
    pool_type: dict[str, str] | None,
    image: dict[str, str] | None,
    limit: dict[str, int | None] | None,
    replace_pools: bool,
    prune: bool,
    spare_faulty: bool,
    as_json: bool,
) -> None:
    """Create work pools, queues, limits, automations and one deployment per workflow, on the running stack or at
    PREFECT_API_URL, and have the domain publish what is new.

    Says what it created, changed and found unchanged. Workflows whose handlers are only planned are named and left out.
    The domain is the running stack's, or the one that CAIRN_DOMAIN_URL and CAIRN_OPERATOR_TOKEN name. Refuses a file
    with other content than what is published there under its version.
    """
    if check or write:
        _generated(workflows or REPOSITORY / "workflows", is_check=check)
        return
    where = aim(workflows)

    from deployments.deploy import runnable_plans

    plans, skipped = runnable_plans(where.workflows, spare_faulty=spare_faulty)
    domain = known_domain(where.stack)
    before = refuse_reused(domain, plans, where.workflows) if domain else {}

    from deployments.rollout.apply import Options
    from deployments.rollout.blocks import AzurePlace

    account = AzurePlace(storage_account, container_prefix, _ca_file()) if storage_account else None
    options = Options(
        storage_root, account, pool_type or {}, image or {}, limit or {}, warm, prune, replace_pools, tuple(skipped)
    )
    changes = _apply(plans, options)
    done = _publish(domain)
    _show(
        changes, skipped, _new(done, before) if done else None, _again(done, before) if done else None, as_json=as_json
    )
    if done and (told := differing(plans, done, skipped)):
        fail("\n".join(told), 1)


def _generated(workflows: Path, *, is_check: bool) -> None:
    """Write prefect.yaml, or look whether it is current."""
    from deployments.deploy import prefect_yaml, runnable_plans

    plans, _ = runnable_plans(workflows)
    file = REPOSITORY / "prefect.yaml"
    if not is_check:
        file.write_text(prefect_yaml(plans))
        click.echo("wrote prefect.yaml")
        return
    if not file.exists() or file.read_text() != prefect_yaml(plans):
        raise SystemExit("prefect.yaml is stale. Run `cairn deploy --write` and commit it.")
    click.echo("prefect.yaml is current")


def _publish(domain: Domain | None) -> dict[str, Any] | None:
    """Have the domain publish the workflows, which later runs then use."""
    if domain is None:
        click.echo(f"cairn: no domain was told: it takes workflows at its start, or name it by {ADDRESS}.", err=True)
        return None
    try:
        return domain.publish()
    except DomainUnanswered as error:
        fail(f"{error} Prefect is up to date; deploy again to have the domain publish.")


def _new(done: Mapping[str, Any], before: Mapping[tuple[str, str], str]) -> list[str]:
    """Return what this call published."""
    rows = [(row["workflow_id"], row["version"]) for row in done["workflows"]]
    return [f"{name} version {version}" for name, version in rows if (name, version) not in before]


def _again(done: Mapping[str, Any], before: Mapping[tuple[str, str], str]) -> list[str]:
    """Return which published versions run again, in place of others."""
    now = {row["workflow_id"]: row["version"] for row in done["workflows"]}
    # A domain of an older release does not say what it replaced.
    back = [(name, was) for name, was in done.get("replaced", {}).items() if (name, now[name]) in before]
    return [f"{name} version {now[name]} (was version {was})" for name, was in back]


def _ca_file() -> Path | None:
    name = os.environ.get("CAIRN_STORAGE_CA_FILE")
    return Path(name) if name else None


def _show(
    changes: "Sequence[Change]",
    skipped: dict[str, list[str]],
    published: list[str] | None,
    again: list[str] | None,
    *,
    as_json: bool,
) -> None:
    from deployments.rollout.report import summary

    if as_json:
        told = {"changes": [change.as_json() for change in changes], "skipped": skipped}
        print_json(told | {"published": published, "again": again})
        return
    for change in changes:
        click.echo(change)
    for name, reasons in skipped.items():
        click.echo(f"left out   {name} ({'; '.join(reasons)})")
    for name in published or ():
        click.echo(f"published  {name}")
    for name in again or ():
        click.echo(f"again      {name}")
    click.echo(summary(changes))


def _apply(plans: "Sequence[Plan]", options: "Options") -> "Sequence[Change]":
    """Bring the server that the environment names up to date."""
    import asyncio

    import httpx

    from deployments.pools import UnknownType
    from deployments.rollout.apply import apply
    from deployments.rollout.pools import WrongType

    try:
        return asyncio.run(apply(plans, options))
    except (WrongType, UnknownType) as error:
        fail(str(error))
    except (httpx.HTTPError, RuntimeError) as error:  # it was there a moment ago
        words = str(error).splitlines() or [type(error).__name__]
        fail(f"the Prefect server did not take everything: {words[0]}. Deploy again; what is done stays.")
