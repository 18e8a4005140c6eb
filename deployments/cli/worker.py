"""worker: run a pool's worker on this machine, or have one finish or hand over its runs and end."""

import os

import click

from deployments.cli.output import fail, json_option, print_json
from flows.pools import POOLS

# What a worker of ours runs with unless its environment says otherwise. Prefect reads them when it is imported.
DEFAULTS = {
    "PREFECT_WORKER_QUERY_SECONDS": "0.2",  # half of it is waited on average, of a light run's third of a second
    "PREFECT_WORKER_ENABLE_CANCELLATION": "true",
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "86400",  # nobody listens to them; it cannot be switched off from here
    "PREFECT_RESULTS_DEFAULT_SERIALIZER": "json",
    "PREFECT_LOGGING_EXTRA_LOGGERS": "cairn",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
}
NEEDED = ("PREFECT_API_URL", "CAIRN_DOMAIN_URL", "CAIRN_WORKER_TOKEN")


@click.group()
def worker() -> None:
    """Run workers, and drain them."""


@worker.command()
@click.option("--pool", type=click.Choice(list(POOLS)), required=True, help="The pool to serve.")
@click.option("--name", help="How operators know this worker; else pool and host.")
@click.option("--limit", type=click.IntRange(min=1), help="Most runs at once.")
@click.option("--with-healthcheck", is_flag=True, help="Answer GET /health at PREFECT_WORKER_WEBSERVER_PORT (8080).")
def start(pool: str, name: str | None, limit: int | None, with_healthcheck: bool) -> None:
    """Serve POOL until SIGTERM, which drains: nothing new is taken, runs hand over, the worker ends within 30 s.

    Needs PREFECT_API_URL (and PREFECT_API_AUTH_STRING), CAIRN_DOMAIN_URL, CAIRN_WORKER_TOKEN and the storage zones.
    """
    import asyncio

    if missing := [variable for variable in NEEDED if not os.environ.get(variable)]:
        fail(f"a worker needs {', '.join(missing)} in its environment.")
    for variable, value in DEFAULTS.items():
        os.environ.setdefault(variable, value)

    from deployments.workers import confining

    try:
        confining.refuse_debugger_elsewhere()
        if POOLS[pool].is_confined:
            confining.look()
    except confining.CannotConfine as refusal:
        fail(str(refusal))

    from deployments.workers.serve import default_name, serve

    asyncio.run(serve(pool, name or default_name(pool), limit, with_healthcheck=with_healthcheck))


@worker.command()
@click.argument("name", required=False)
@json_option
def drain(name: str | None, as_json: bool) -> None:
    """Have worker NAME of this machine (or all of them) finish or hand over its runs, then end.

    On another machine, send SIGTERM to the worker: `kubectl delete pod`, `docker stop -t 35` or `systemctl stop` do.
    """
    from deployments.stack.state import StackState
    from deployments.workers.drain import drain as drain_them
    from deployments.workers.drain import workers
    from deployments.workers.serve import default_name

    running = workers(str(StackState.default().root))
    chosen = [found for found in running if name in {None, found.name or default_name(found.pool)}]
    if not chosen:
        fail(f"no worker {name or ''} runs on this machine.".replace("  ", " "), 1)
    left = drain_them(chosen)
    told = {found.name or default_name(found.pool): found not in left for found in chosen}
    if as_json:
        print_json({"drained": told})
    else:
        for label, gone in told.items():
            click.echo(f"{label}: {'ended' if gone else 'is still there'}")
    if left:
        raise SystemExit(1)
