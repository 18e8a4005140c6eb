"""submit, upload, and the status of a request: what a partner does, from the command line."""

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import click
import httpx

from deployments.cli.clients import StackClients, answer, running_stack, say
from deployments.cli.output import bar, json_option, print_json
from deployments.stack.storage import zones_of
from domain.contracts.platforms import own_folder
from flows.handlers.errors import InvalidInput

OPEN = ("pending", "processing")
POLL_SECONDS = 0.5


class Watcher(Protocol):
    def __call__(self, status: dict[str, Any]) -> None: ...


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--as", "platform", default="ddh", show_default=True, help="The platform that submits.")
@click.option("--ref", "refs", multiple=True, metavar="NAME=VALUE", help="A reference, as in dataset_id=elevation.")
@click.option("--data-type", default="raster", show_default=True)
@click.option("--operation", default="ingest", show_default=True)
@click.option("--parameter", "-p", "parameters", multiple=True, metavar="NAME=VALUE", help="An input of the workflow.")
@click.option("--priority", type=click.Choice(["low", "normal", "high"]), help="Which queue its runs wait in.")
@click.option("--callback-url", help="Told, signed, when the request has ended; the client needs a callback secret.")
@click.option("--key", help="Idempotency key: the same key and body never make a second request.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Stay until the request has ended.")
@json_option
def submit(
    file: Path,
    platform: str,
    refs: tuple[str, ...],
    data_type: str,
    operation: str,
    parameters: tuple[str, ...],
    priority: str | None,
    callback_url: str | None,
    key: str | None,
    wait: bool,
    as_json: bool,
) -> None:
    """Copy FILE into the bronze zone and submit it through the gateway, in the platform's own words.

    \b
    cairn submit dem.tif --ref dataset_id=elevation --ref resource_id=dem --ref version_id=1
    """
    stack = running_stack()
    source = put_in_bronze(stack, file, platform)
    optional = {"priority": priority, "callback_url": callback_url}
    body = {
        **_pairs(refs, "--ref"),
        **{name: value for name, value in optional.items() if value is not None},
        "data_type": data_type,
        "operation": operation,
        "source": source,
        "parameters": _pairs(parameters, "--parameter"),
    }
    with stack.partner(platform) as gateway:
        accepted = send(gateway, body, key)
        if not wait:
            _show(accepted, as_json)
            return
        if not as_json:
            say(f"request {accepted['request_id']}")
        with progress_bar(quiet=as_json) as watcher:
            status = follow(gateway, accepted["request_id"], watcher)
    _show(status, as_json)
    if status["status"] != "completed":
        raise SystemExit(1)


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--as", "platform", default="ddh", show_default=True, help="The platform that will submit it.")
@json_option
def upload(file: Path, platform: str, as_json: bool) -> None:
    """Copy FILE into the platform's folder of bronze, and print its name there: what a submission's `source` says."""
    source = put_in_bronze(running_stack(), file, platform)
    if as_json:
        print_json({"source": source})
    else:
        click.echo(source)


def put_in_bronze(stack: StackClients, file: Path, platform: str) -> str:
    """Copy a file into the platform's folder of bronze, under its content's name.

    The same file twice is one blob, and one submission.
    """
    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    source = f"{own_folder(platform)}{digest[:16]}/{file.name}"
    try:
        zones_of(stack.state).bronze.put_file(source, file)
    except InvalidInput as error:
        raise click.BadParameter(str(error), param_hint="FILE") from error
    return source


def send(gateway: httpx.Client, body: dict[str, Any], key: str | None = None) -> dict[str, Any]:
    """Submit; a refusal ends the command."""
    headers = {"Idempotency-Key": key} if key else {}
    accepted: dict[str, Any] = answer(gateway.post("/api/platform/submit", json=body, headers=headers))
    return accepted


def follow(gateway: httpx.Client, request_id: str, watcher: Watcher, timeout_seconds: float = 3600) -> dict[str, Any]:
    """Ask until the request has ended, telling the watcher each answer."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        status: dict[str, Any] = answer(gateway.get(f"/api/platform/status/{request_id}"))
        watcher(status)
        if status["status"] not in OPEN:
            return status
        if time.monotonic() > deadline:
            raise TimeoutError(f"Request {request_id} had not ended after {timeout_seconds:.0f} s.")
        time.sleep(POLL_SECONDS)


def show_request(request_id: str, platform: str, as_json: bool) -> None:
    """`cairn status REQUEST`."""
    with running_stack().partner(platform) as gateway:
        _show(answer(gateway.get(f"/api/platform/status/{request_id}")), as_json)


@contextmanager
def progress_bar(*, quiet: bool = False) -> Iterator[Watcher]:
    """A bar on a terminal; elsewhere a line whenever something has changed."""
    import sys

    if quiet:
        yield lambda status: None
    elif not sys.stderr.isatty():
        yield _lines()
    else:
        with bar() as show:
            yield lambda status: show(_describe(status), status["progress"]["percent"])


def _lines() -> Watcher:
    told: list[str] = []

    def tell(status: dict[str, Any]) -> None:
        line = f"  {_describe(status)}, {status['progress']['percent']} %"
        if not told or told[-1] != line:
            told.append(line)
            say(line)

    return tell


def _describe(status: dict[str, Any]) -> str:
    progress = status["progress"]
    return f"{status['status']}: {progress['nodes_done']} of {progress['nodes_total']} nodes"


def _show(content: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(content)
        return
    click.echo(f"request   {content['request_id']}\nstatus    {content['status']}")
    if problem := content.get("problem"):
        click.echo(f"problem   {problem['detail']} ({problem['code']})")
    if result := content.get("result"):
        click.echo(f"asset     {result['asset_id']}\nversion   {result['version']} (revision {result['revision']})")
        click.echo(f"approval  {result['approval']}\nclearance {result['clearance']}")


def _pairs(given: tuple[str, ...], option: str) -> dict[str, str]:
    pairs = dict(pair.partition("=")[::2] for pair in given)
    if broken := [pair for pair in given if "=" not in pair]:
        raise click.BadParameter(f"{broken[0]!r} is not NAME=VALUE.", param_hint=option)
    return pairs
