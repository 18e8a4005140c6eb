"""up, down, status: the embedded stack."""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from deployments.cli.output import fail, json_option, print_json, spinner, table
from deployments.stack import control
from deployments.stack.opening import LISTEN, CannotListen, Opening
from deployments.stack.owner import interrupt_at_sigterm
from deployments.stack.state import StackRunning, StackState, read_json


@click.command()
@click.option(
    "--listen",
    metavar="ADDRESS",
    envvar=LISTEN,
    help="Open gateway, domain and Prefect to other hosts at this address of ours, with TLS (`cairn certs`).",
)
@click.option("--detach", "-d", is_flag=True, help="Return when everything is ready and leave it running.")
@json_option
def up(listen: str | None, detach: bool, as_json: bool) -> None:
    """Start the embedded stack: PostgreSQL, Redis, Prefect, workers, domain, gateway, serving.

    Everything listens on loopback and keeps its state in .cairn/ (or CAIRN_STATE). Without --detach the stack runs
    until Ctrl-C and its processes' output is shown here; --json goes with --detach. With --listen, what a worker on
    another host needs is printed.
    """
    state = StackState.default()
    if listen:
        try:
            Opening(state, listen).bound()
        except CannotListen as error:
            fail(str(error))
        os.environ[LISTEN] = listen
    if as_json and not detach:
        fail("--json needs --detach: without it, the output is the services' own.")
    if detach:
        _up_detached(state, as_json)
    else:
        _up_here(state)


def _up_detached(state: StackState, as_json: bool) -> None:
    interrupt_at_sigterm()
    try:
        with start_progress(quiet=as_json) as progress:
            facts = control.start(state, progress)
    except StackRunning as error:
        fail(str(error), 1)
    except control.StartFailed as error:
        fail(str(error))
    if as_json:
        print_json(_report(state, facts))
        return
    show_services(facts)
    click.echo(
        f"Ready in {facts['ready_seconds']} s. Credentials: {state.credentials_file}. Stop it with `cairn down`."
    )
    _tell_worker_hosts(state)


def _tell_worker_hosts(state: StackState) -> None:
    """Print what a worker on another host needs, where the stack is opened to others."""
    if opening := Opening.told(state):
        from deployments.stack import storage

        click.echo(opening.instructions(storage.environment(state)))


def _up_here(state: StackState) -> None:
    from deployments.stack.run import run_stack

    def announce(name: str, now: str, seconds: float) -> None:
        click.secho(f"{name:>14} │ {now}" + (f" after {seconds:.1f} s" if seconds else ""), bold=True)
        if now == "slow":  # what else it says is shown as its log grows
            reason = (read_json(state.stack_file) or {})["services"][name]["reason"]
            click.secho(f"{name:>14} │ {reason}", bold=True)
        if name == "stack":
            show_services(read_json(state.stack_file) or {})
            _tell_worker_hosts(state)

    state.create()
    stop = threading.Event()
    follower = threading.Thread(target=_follow, args=(state, stop), daemon=True)
    follower.start()
    try:
        asyncio.run(run_stack(state, announce))
    except StackRunning as error:
        fail(str(error), 1)
    except RuntimeError as error:
        fail(str(error))
    finally:
        stop.set()
        follower.join(2)


def _follow(state: StackState, stop: threading.Event) -> None:
    """Print what services write to their logs, each line after its service's name."""
    positions: dict[Path, int] = {}
    while not stop.wait(0.3):
        for log in sorted(state.logs.glob("*.log")):
            if log.stem == "supervisor":
                continue
            start = positions.get(log, 0)
            if log.stat().st_size < start:
                start = 0
            with log.open("rb") as file:
                file.seek(start)
                *lines, _ = (content := file.read()).split(b"\n")
            positions[log] = start + content.rfind(b"\n") + 1
            for line in lines:
                click.echo(f"{log.stem:>14} │ {line.decode(errors='replace')}")


@click.command()
@click.option("--wipe", is_flag=True, help="Also delete the stack's databases, storage and credentials.")
@json_option
def down(wipe: bool, as_json: bool) -> None:
    """Stop the embedded stack, and whatever a killed one left behind."""
    state = StackState.default()
    stopped = control.stop(state)
    if wipe:
        control.wipe(state)
    if as_json:
        print_json({"stopped": stopped, "wiped": wipe})
    else:
        click.echo(("Stopped." if stopped else "Nothing was running.") + (" Its data is deleted." if wipe else ""))


@click.command()
@click.argument("request_id", required=False)
@click.option("--as", "platform", default="ddh", show_default=True, help="With a request: the partner who asks.")
@json_option
def status(request_id: str | None, platform: str, as_json: bool) -> None:
    """Show what runs where; with a REQUEST_ID, how that request stands for its partner."""
    if request_id:
        from deployments.cli.partner import show_request

        show_request(request_id, platform, as_json)
        return
    state = StackState.default()
    facts = state.running()
    if facts is None:
        if as_json:
            print_json({"services": {}, "workers": []})
        else:
            click.echo("No stack is running. Start one with `cairn up`.")
        raise SystemExit(1)
    report = _report(state, facts)
    if as_json:
        print_json(report)
    else:
        show_services(facts, report)
    if not all(service["healthy"] for service in [*report["services"].values(), *report["workers"]]):
        raise SystemExit(1)


def _report(state: StackState, facts: dict[str, Any]) -> dict[str, Any]:
    """Every service with its health asked for now."""
    from deployments.stack.report import report

    return asyncio.run(report(state, facts))


def show_services(facts: dict[str, Any], report: dict[str, Any] | None = None) -> None:
    """The table of what runs where."""
    rows = []
    for name, service in facts.get("services", {}).items():
        if service.get("step"):
            continue
        url = (service.get("url") or "").rpartition("@")[2] or "—"
        now = (_health(name, service, report), url, str(service.get("pid") or "—"), str(service.get("restarts", 0)))
        rows.append((name, *now, _short(service["log"])))
    table(("service", "state", "address", "pid", "restarts", "log"), rows)
    for name, service in facts.get("services", {}).items():
        if service.get("reason"):
            click.echo(f"{name} at {service['reason_at']}: {service['reason']}")
    for told in (report or {}).get("held", {}).values():
        click.echo(f"{told}: what waits there waits until somebody changes that.")


def _health(name: str, service: dict[str, Any], report: dict[str, Any] | None) -> str:
    if report is None:
        return str(service["state"])
    known = report["services"] | {worker["name"]: worker for worker in report["workers"]}
    if known.get(name, {}).get("healthy"):
        return "healthy"
    return "unhealthy" if service.get("pid") else "down"


def _short(path: str) -> str:
    """A path below the current folder without that folder's own."""
    place = Path(path)
    return str(place.relative_to(Path.cwd())) if place.is_relative_to(Path.cwd()) else path


@contextmanager
def start_progress(*, quiet: bool = False) -> Iterator[control.Progress]:
    """Tell, while a stack starts, what is starting and what is ready."""
    told: set[tuple[str, str]] = set()
    begun = time.monotonic()

    def plain(facts: dict[str, Any]) -> None:
        for name, service in facts["services"].items():
            if service["state"] in {"ready", "done"} and (name, "up") not in told:
                told.add((name, "up"))
                click.echo(f"  {time.monotonic() - begun:5.1f} s  {name} {service['state']}", err=True)
            elif (reason := service.get("reason")) and (name, reason) not in told:
                told.add((name, reason))
                click.echo(f"  {time.monotonic() - begun:5.1f} s  {name} {reason}", err=True)

    if quiet:
        yield lambda _facts: None
    elif not sys.stderr.isatty():
        yield plain
    else:
        with spinner("starting") as say:

            def lively(facts: dict[str, Any]) -> None:
                say(_waited_for(facts))

            yield lively


def _waited_for(facts: dict[str, Any]) -> str:
    """Return what starts now, and for each service what delays it."""
    starting = {
        name: service.get("reason")
        for name, service in facts["services"].items()
        if service["state"] not in {"waiting", "ready", "done"}
    }
    return "; ".join([f"starting {', '.join(starting)}", *(f"{name} {why}" for name, why in starting.items() if why)])
