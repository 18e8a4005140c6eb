"""The domain service: `uvicorn --factory domain.app:create_app`."""

import gc
import logging
import os
import ssl
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, closing
from functools import partial
from typing import Any
from uuid import uuid4

import psycopg
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DataError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnectionFree

from domain import failpoints
from domain.adapters.callback_delivery import CallbackPoster
from domain.adapters.sealing import Vault
from domain.api import (
    assets,
    audit,
    callbacks,
    clients,
    commands,
    control,
    flow_runs,
    items,
    leftovers,
    metrics,
    pools,
    probes,
    records,
    reviews,
    submissions,
)
from domain.api.admission import CONSOLE, RUNS, admit
from domain.api.gauges import DomainGauges
from domain.console.app import Guard, create_console
from domain.console.forms import LONGEST_FORM
from domain.contracts import rendering
from domain.db import Database
from domain.errors import Unkept, no_database
from domain.loops.approval_expiry import ApprovalExpiry
from domain.loops.audit_sealer import AuditSealer
from domain.loops.callback_sender import CallbackSender
from domain.loops.commit_notifier import CommitNotifier
from domain.loops.external_metadata import ExternalMetadataSweep
from domain.loops.leftover_collector import LeftoverCollector
from domain.loops.listening_notes import ListeningNotes
from domain.loops.node_history import NodeHistorySweep
from domain.loops.unserved_pools import UnservedPoolSweep
from domain.repositories.published import WORKFLOW_CHANNEL
from domain.rules.routing import gap_seconds
from domain.services.operations.callbacks import seal_readable
from domain.services.operations.leftovers import Collecting
from domain.services.operations.workflow_library import Library
from domain.services.publication.exports import WITHDRAWAL
from domain.services.publication.external_metadata import OutsideWords
from domain.services.publication.file_checks import FileChecks
from domain.services.submissions.quotas import Quotas
from domain.services.submissions.waiting_line import AcceptanceTurns
from domain.settings import DomainSettings, settings
from domain.shared import logs
from domain.shared.authentication import Authentication
from domain.shared.background import in_background
from domain.shared.last_uses import LastUses
from domain.shared.metrics import Metering, RequestMeter
from domain.shared.notices import CHILDREN_CHANNEL, FENCE_CHANNEL, SENT_CHANNEL, Notices
from domain.shared.request_bodies import Bodies, BodyBudget, BodyRules
from domain.shared.signals import on_stop
from domain.state import LastLines, Service

log = logging.getLogger("cairn.domain")
MEGABYTE = 1024**2
LONGEST_CONSOLE_BODY = 4 * LONGEST_FORM  # what is a little longer is told so by a page


def create_app(configured: DomainSettings | None = None) -> FastAPI:
    """The application. Nothing is opened before it starts."""
    failpoints.refuse_unknown()
    config = _checked_settings(configured or settings())
    if configured is None:  # the process is ours: whoever brings settings, as tests do, brings logging too
        logs.configure("domain")
    console = create_console(config)
    lifespan = partial(_run_service, config=config, console=console, is_server=configured is None)
    app = FastAPI(title="Cairn domain", version="1", lifespan=lifespan, docs_url=None, redoc_url=None)
    rendering.install(app)
    _handle_database_failures(app)
    app.add_middleware(logs.LogContext)
    _limit_bodies(app, config)
    _meter(app, console)
    _include_routes(app)
    app.state.console = console
    app.mount("/console", Guard(console))
    return app


@asynccontextmanager
async def _run_service(
    app: FastAPI, *, config: DomainSettings, console: FastAPI, is_server: bool
) -> AsyncIterator[None]:
    """Open what the service needs, run its loops, and close all of it at the stop."""
    address = config.address(config.database_url)
    database = Database(address, config.pool_size, config.statement_seconds)
    try:
        await database.refuse_stale_schema()
        fences = Notices(address, FENCE_CHANNEL, also=(CHILDREN_CHANNEL, SENT_CHANNEL))
        service = await _make_service(config, database, fences)
        app.state.service = console.state.service = service
        _register_gauges(app, database)
        uses = LastUses(address, service.authentication.seen, config.last_used_seconds)
        loops = [await _note_listening(service), *_loops(config, database, fences), uses.hear(), uses.write()]
        loops += [*_callback_senders(config, database, service.vault), *_sweeps(service)]
        loops += [service.library.notices.run(), service.library.follow(), app.state.gauges.lag.watch()]
        with closing(service.file_checks):
            async with in_background(*loops):
                if is_server:
                    on_stop(fences.close)
                    on_stop(console.state.pages.close)
                    gc.collect()
                    gc.freeze()  # else each full collection walks all of it, and submissions wait
                yield
    finally:
        await database.close()


async def _make_service(config: DomainSettings, database: Database, fences: Notices) -> Service:
    """Make what the process holds while it runs."""
    zones = config.zones()
    return Service(
        config,
        database,
        await _publish_library(config, database),
        zones,
        FileChecks(zones.of_service("silver"), config.file_check_seconds),
        Quotas(config.open_requests_per_platform, config.quota_cache_seconds),
        await _open_vault(config, database),
        Authentication(config.token_verifier()),
        fences,
        AcceptanceTurns(config.submission_wait_seconds),
        _listener(config, database),
        _log_reader(config),
    )


def _include_routes(app: FastAPI) -> None:
    """Include the routes of every audience, first what is asked most: routes are tried one after the other."""
    app.include_router(submissions.router)
    app.include_router(flow_runs.router)
    app.include_router(probes.router)
    app.include_router(metrics.router)
    for audience in (assets, audit, callbacks, clients, commands, control, items, leftovers, pools, records, reviews):
        app.include_router(audience.router)
    app.include_router(records.timelines)


async def _publish_library(config: DomainSettings, database: Database) -> Library:
    """Publish the workflows; refuse to start without those that approvals need."""
    needed = (config.export_workflow, WITHDRAWAL)
    notices = Notices(config.address(config.database_url), WORKFLOW_CHANNEL, own=str(uuid4()))
    library = Library(database, config.workflows_dir, needed, notices)
    definitions = await library.publish()
    for workflow_id in needed:
        definitions.named(workflow_id)
    return library


async def _open_vault(config: DomainSettings, database: Database) -> Vault:
    """Make what seals secrets, and seal those that were stored readable when there was no key."""
    vault = Vault([key.get_secret_value() for key in config.secrets_keys])
    async with database.transaction() as session:
        if sealed := await seal_readable(session, vault):
            log.warning("callback secrets were stored readable and are sealed now", extra={"count": sealed})
    return vault


def _checked_settings(config: DomainSettings) -> DomainSettings:
    """Return the settings, having checked the address of Prefect too, which Prefect reads by itself."""
    config.audit_chain()  # a key that is none stops the service here
    if config.relay_enabled:
        config.refuse_plain_http("PREFECT_API_URL", os.environ.get("PREFECT_API_URL", ""))
    return config


def _register_gauges(app: FastAPI, database: Database) -> None:
    """Add the gauges of waiting work to the metrics."""
    service: Service = app.state.service
    app.state.gauges = DomainGauges(database, service.settings.beacon_silence_seconds, service.settings.patience().gap)
    app.state.metering.add(app.state.gauges.metrics)


def _handle_database_failures(app: FastAPI) -> None:
    """Answer every failure of the database with a problem document, whichever library raised it."""
    for outage in (OperationalError, InterfaceError, NoConnectionFree, psycopg.OperationalError):
        app.add_exception_handler(outage, _answer_database_unavailable)
    for unkept in (DataError, psycopg.DataError):
        app.add_exception_handler(unkept, _answer_unstorable_value)


def _limit_bodies(app: FastAPI, config: DomainSettings) -> None:
    """Read bodies only from callers who may send them, and no more than there is room for."""
    rules = BodyRules(config.max_body_bytes, {CONSOLE: LONGEST_CONSOLE_BODY, RUNS: config.max_report_bytes})
    room = BodyBudget(config.bodies_mb * MEGABYTE, is_shared=False)  # the gateway speaks for all partners
    app.add_middleware(Bodies, rules=rules, room=room, admit=admit)


def _meter(app: FastAPI, console: FastAPI) -> None:
    """Count the answers of the API and of the console."""
    app.state.metering = Metering()
    app.add_middleware(RequestMeter, metering=app.state.metering, mounts=["/console"])
    console.add_middleware(RequestMeter, metering=app.state.metering, prefix="/console")


async def _answer_database_unavailable(request: Request, error: Exception) -> JSONResponse:
    """Answer that the database is unavailable, and log whose call it was."""
    log.warning("no database for a request", extra={"path": request.url.path, "error": type(error).__name__})
    return rendering.render(no_database().problem())


async def _answer_unstorable_value(_request: Request, error: Exception) -> JSONResponse:
    """Answer that the caller sent what no column holds: a number out of range, a NUL in a text."""
    log.warning("a request held what cannot be kept", extra={"error": type(error).__name__})
    problem = Unkept("A text has a NUL or half a letter in it, or a number is too large to be kept.")
    return rendering.render(problem.problem())


def _listener(config: DomainSettings, database: Database) -> ListeningNotes:
    """Make the notes that this process listens, often enough for attempts and for workers."""
    return ListeningNotes(database, min(config.patience().gap, gap_seconds(config.beacon_silence_seconds)))


async def _note_listening(service: Service) -> Coroutine[Any, Any, None]:
    """Note before the first request that this process listens to flow runs; return the loop that goes on noting it."""
    await service.listener.note()
    return service.listener.run()


def _log_reader(config: DomainSettings) -> LastLines | None:
    if not config.relay_enabled:
        return None
    from domain.adapters.prefect_logs import last_lines

    return last_lines


def _loops(config: DomainSettings, database: Database, fences: Notices) -> list[Coroutine[Any, Any, None]]:
    """Return the loops that run beside the API in this process."""
    address = config.address(config.database_url)
    notifier = CommitNotifier(address)
    database.tell = notifier.tell
    if not config.relay_enabled:
        return [notifier.run(), fences.run()]
    from domain.loops.relay import Relay  # brings Prefect's client along

    relay = Relay(
        database,
        address,
        config.relay_poll_seconds,
        config.in_flight_per_pool,
        config.relay_lease_seconds,
        config.relay_retry_seconds,
    )
    sealer = AuditSealer(database, config.audit_seal_seconds, config.audit_chain())
    sweeps = _reconcile(config, database, fences)
    return [notifier.run(), fences.run(), relay.run(), sweeps, _sweep_unserved_pools(config, database), sealer.run()]


async def _reconcile(config: DomainSettings, database: Database, fences: Notices) -> None:
    """Sweep with a Prefect client of its own."""
    from domain.adapters.prefect_runs import PrefectRuns
    from domain.loops.reconciler import Reconciler

    async with PrefectRuns() as flow_runs:
        every, attempts = config.reconcile_seconds, config.max_attempts
        patience, pause = config.patience(), config.attempt_pause_seconds
        await Reconciler(database, flow_runs, every, patience, attempts, fences.heard, pause).run()


async def _sweep_unserved_pools(config: DomainSettings, database: Database) -> None:
    """Look for runs whose pool nobody serves, with a Prefect client of its own."""
    from domain.adapters.prefect_runs import PrefectRuns

    async with PrefectRuns() as prefect:
        silence, allowed = config.beacon_silence_seconds, config.unroutable_seconds
        asked = (prefect.online_workers, prefect.held_places)
        await UnservedPoolSweep(database, config.routing_seconds, silence, allowed, *asked).run()


def _sweeps(service: Service) -> list[Coroutine[Any, Any, None]]:
    """Return the loops that end approvals, collect leftovers, forget old history and remove external metadata.

    A process that dispatches does this too.
    """
    config = service.settings
    if not config.relay_enabled:
        return []
    collecting = Collecting(service.database, service.zones, config.leftovers())
    loops = [
        ApprovalExpiry(service, config.approval_end_seconds).run(),
        LeftoverCollector(collecting, config.collect_seconds).run(),
        NodeHistorySweep(service.database, config.kept_node_history_seconds).run(),
    ]
    if config.external_database_url is not None:
        words = OutsideWords(service.database, config.external_database_url.get_secret_value())
        loops.append(ExternalMetadataSweep(words, config.external_look_seconds).run())
    return loops


def _callback_senders(config: DomainSettings, database: Database, vault: Vault) -> list[Coroutine[Any, Any, None]]:
    """Return the loops that deliver callbacks from this process."""
    if not config.callbacks_enabled:
        return []
    tls = ssl.create_default_context()
    if config.callback_ca_file:
        tls.load_verify_locations(config.callback_ca_file)
    sender = CallbackSender(
        database,
        CallbackPoster(config.callback_policy(), config.callback_timeout_seconds, tls),
        vault,
        public_url=str(config.public_url),
        delays_seconds=config.callback_delays_seconds,
        poll_seconds=config.callback_poll_seconds,
        concurrency=config.callback_concurrency,
    )
    return [sender.run()]
