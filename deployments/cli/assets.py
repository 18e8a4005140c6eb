"""assets, platforms, clearance, unpublish: what staff see and change about published data."""

from typing import Any

import click
import httpx

from deployments.cli.clients import answer, running_stack
from deployments.cli.output import json_option, print_json, table

LEVELS = click.Choice(["uncleared", "ouo", "public"])
HEADINGS = ("asset", "platform", "references", "clearance", "latest")


@click.group(invoke_without_command=True)
@click.option("--platform", "platform_id", help="Only this platform's.")
@click.option("--ref", "refs", multiple=True, metavar="NAME=VALUE", help="Only assets with this reference.")
@click.option("--clearance", type=LEVELS, help="Only assets of this clearance.")
@click.option("--deleted", is_flag=True, help="Deleted ones too.")
@click.option("--limit", type=click.IntRange(1, 500), default=100, show_default=True)
@json_option
@click.pass_context
def assets(
    context: click.Context,
    platform_id: str | None,
    refs: tuple[str, ...],
    clearance: str | None,
    deleted: bool,
    limit: int,
    as_json: bool,
) -> None:
    """List assets. `cairn assets show`, `expose` and `delete` look at and change one of them."""
    if context.invoked_subcommand is not None:
        return
    asked = {"platform_id": platform_id, "ref": list(refs), "clearance": clearance, "deleted": deleted, "limit": limit}
    with _domain() as domain:
        page = answer(domain.get("/api/v1/assets", params={name: value for name, value in asked.items() if value}))
    if as_json:
        print_json(page)
    else:
        table(HEADINGS, map(_row, page["assets"]))


@assets.command()
@click.argument("asset_id")
@json_option
def show(asset_id: str, as_json: bool) -> None:
    """Show one asset and its versions."""
    with _domain() as domain:
        asset = answer(domain.get(f"/api/v1/assets/{asset_id}"))
        versions = answer(domain.get("/api/v1/versions", params={"asset_id": asset_id, "deleted": True}))["versions"]
    if as_json:
        print_json({**asset, "versions": versions})
        return
    table(HEADINGS, [_row(asset)])
    table(("version", "label", "served", "newest", "approval", "processing", "deleted"), map(_version_row, versions))


@assets.command()
@click.argument("asset_id")
@click.argument("exposure", type=click.Choice(["latest_only", "all_versions"]))
@json_option
def expose(asset_id: str, exposure: str, as_json: bool) -> None:
    """Offer the latest approved version of ASSET_ID only, or all of them."""
    _change(asset_id, "exposure", {"exposure": exposure}, as_json)


@assets.command()
@click.argument("asset_id")
@click.option("--version", type=click.IntRange(min=0), help="Only this version, by its ordinal.")
@click.option("--reason", required=True, help="Kept with the deletion.")
@json_option
def delete(asset_id: str, version: int | None, reason: str, as_json: bool) -> None:
    """Delete ASSET_ID, or one version of it. What is served must be unpublished first."""
    path = f"/api/v1/assets/{asset_id}" + ("" if version is None else f"/versions/{version}")
    with _domain() as domain:
        done = domain.delete(path, params={"reason": reason}, headers=_as_read(domain, path))
        if not done.is_success:
            answer(done)
    if as_json:
        print_json({"asset_id": asset_id, "version": version, "deleted": True})
    else:
        click.echo(f"Deleted {'asset' if version is None else f'version {version} of'} {asset_id}.")


@click.command()
@click.argument("asset_id")
@click.argument("level", type=LEVELS)
@click.option("--reason", required=True, help="Kept with the decision.")
@json_option
def clearance(asset_id: str, level: str, reason: str, as_json: bool) -> None:
    """Decide who may read what is approved of ASSET_ID: upwards or downwards."""
    _change(asset_id, "clearance", {"clearance_level": level, "reason": reason}, as_json)


@click.command()
@click.argument("asset_id")
@click.argument("version", type=click.IntRange(min=0))
@click.option("--reason", required=True, help="Kept with the decision.")
@json_option
def unpublish(asset_id: str, version: int, reason: str, as_json: bool) -> None:
    """Stop serving a version of ASSET_ID, by its ordinal. It awaits a decision again."""
    decision = _take_back("unpublish", asset_id, version, reason, None)
    if as_json:
        print_json(decision)
    else:
        click.echo(f"Version {version} is no longer served; latest is {decision['latest_ordinal']}.")


@click.command()
@click.argument("asset_id")
@click.argument("version", type=click.IntRange(min=0))
@click.option("--reason", required=True, help="Kept with the decision.")
@click.option("--revision", type=click.IntRange(min=1), help="Of which revision; else of the one that is served.")
@json_option
def withdraw(asset_id: str, version: int, reason: str, revision: int | None, as_json: bool) -> None:
    """Take back your own approval of a version of ASSET_ID. Where too few are left, it is no longer served."""
    decision = _take_back("withdraw", asset_id, version, reason, revision)
    if as_json:
        print_json(decision)
        return
    counted = f"{decision['approvals']} of {decision['approvals_required']} approvals"
    click.echo(f"Version {version}: {counted}, {decision['approval']}; latest is {decision['latest_ordinal']}.")


def _take_back(verb: str, asset_id: str, version: int, reason: str, revision: int | None) -> dict[str, Any]:
    path = f"/api/v1/assets/{asset_id}/versions/{version}"
    with _domain() as domain:
        found = answer(domain.get(path))
        body = {"revision": revision or found["served_revision"] or found["newest"]["revision"], "reason": reason}
        decision: dict[str, Any] = answer(domain.post(f"{path}/{verb}", json=body, headers=_as_read(domain, path)))
    return decision


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def platforms(context: click.Context, as_json: bool) -> None:
    """List the partner systems that may submit. `cairn platforms set` says how one stands beside the others."""
    if context.invoked_subcommand is not None:
        return
    with _domain() as domain:
        listed = answer(domain.get("/api/v1/platforms"))
    if as_json:
        print_json(listed)
        return
    headings = ("platform", "name", "references", "version", "sources", "share", "priority", "active")
    table(headings, [(row["platform_id"], row["display_name"], *_platform_rest(row)) for row in listed])


@platforms.command("set")
@click.argument("platform_id")
@click.option("--share", type=click.IntRange(1, 100), help="How many runs go in its turn, where others wait too.")
@click.option(
    "--priority-cap", type=click.Choice(["low", "normal", "high"]), help="The highest that its work may have."
)
@json_option
def set_platform(platform_id: str, share: int | None, priority_cap: str | None, as_json: bool) -> None:
    """Say how PLATFORM_ID stands beside the others. What waits already keeps its priority."""
    if share is None and priority_cap is None:
        raise click.UsageError("Say --share, --priority-cap or both.")
    body = {"platform_id": platform_id, "share": share, "priority_cap": priority_cap}
    with running_stack().staff("operator", "domain") as domain:
        answer(domain.post("/api/v1/commands/platform.weigh", json=body))
        row = answer(domain.get(f"/api/v1/platforms/{platform_id}"))
    if as_json:
        print_json(row)
    else:
        click.echo(f"platform {platform_id}: share {row['share']}, priority up to {row['priority_cap']}")


def _domain() -> httpx.Client:
    return running_stack().staff("reviewer", "domain")


def _as_read(domain: httpx.Client, path: str) -> dict[str, str]:
    """Return the precondition that nobody changes the thing between this look and the change."""
    found = domain.get(path)
    answer(found)
    return {"If-Match": found.headers["ETag"]}


def _change(asset_id: str, what: str, body: dict[str, Any], as_json: bool) -> None:
    path = f"/api/v1/assets/{asset_id}"
    with _domain() as domain:
        changed = answer(domain.post(f"{path}/{what}", json=body, headers=_as_read(domain, path)))
    if as_json:
        print_json(changed)
    else:
        click.echo(f"asset {asset_id}: clearance {changed['clearance']}, exposure {changed['exposure']}")


def _row(asset: dict[str, Any]) -> tuple[str, ...]:
    refs = " ".join(f"{name}={value}" for name, value in sorted(asset["refs"].items()))
    latest = "—" if asset["latest_ordinal"] is None else str(asset["latest_ordinal"])
    return asset["asset_id"], asset["platform_id"], refs, asset["clearance"], latest


def _version_row(version: dict[str, Any]) -> tuple[str, ...]:
    newest, served = version["newest"], version["served_revision"]
    shown = (version["ordinal"], version["label"], f"r{served}" if served else "—", f"r{newest['revision']}")
    deleted = "yes" if version["deleted_at"] else ""
    return (*map(str, shown), newest["approval"], newest["processing"], deleted)


def _platform_rest(row: dict[str, Any]) -> tuple[str, ...]:
    references = ", ".join([*row["required_refs"], *(f"[{name}]" for name in row["optional_refs"])])
    sources = ", ".join(row["source_prefixes"]) or "no files"
    standing = (str(row["share"]), f"up to {row['priority_cap']}")
    return references, row["version_ref"], sources, *standing, "yes" if row["is_active"] else "no"
