"""Commands and bootstrap, for operators and admins.

The caller is authenticated in a transaction of its own: a migration waits for every open one, ours included.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends
from fastapi.responses import PlainTextResponse

from domain.api.dependencies import ServiceState, allowed_beforehand
from domain.contracts.bootstrap import BootstrapDone, BootstrapStatus, PublishedDefinition, TableFacts
from domain.contracts.commands import CommandDone
from domain.security import Identity
from domain.services.operations.bootstrap import Bootstrap
from domain.services.operations.commands import Commands

router = APIRouter(prefix="/api/v1", tags=["administration"])
Operator = Annotated[Identity, Depends(allowed_beforehand("operator", "admin"))]
Admin = Annotated[Identity, Depends(allowed_beforehand("admin"))]


@router.post("/commands/{name}")
async def run_command(
    name: str, parameters: Annotated[dict[str, Any], Body()], state: ServiceState, caller: Operator
) -> CommandDone:
    """Do a command now. Sent again, it changes nothing more."""
    return await Commands(state, caller).run(name, parameters)


async def _bootstrap(state: ServiceState) -> Bootstrap:
    return Bootstrap(state.database, state.settings, state.library)


Door = Annotated[Bootstrap, Depends(_bootstrap)]


@router.get("/bootstrap/status")
async def bootstrap_status(bootstrap: Door, _caller: Operator) -> BootstrapStatus:
    """Whether the database is what this service needs."""
    return await bootstrap.status()


@router.get("/bootstrap/tables")
async def bootstrap_tables(bootstrap: Door, _caller: Operator) -> list[TableFacts]:
    """Our tables and their sizes."""
    return await bootstrap.tables()


@router.get("/bootstrap/ddl", response_class=PlainTextResponse)
async def bootstrap_ddl(bootstrap: Door, _caller: Operator) -> str:
    """The statements that make our tables."""
    return bootstrap.ddl()


@router.post("/bootstrap/deploy")
async def bootstrap_deploy(bootstrap: Door, caller: Operator) -> BootstrapDone:
    """Read the workflows' folder again and publish what is new in it. Every other process of the domain then does so.

    A file with faults, or with other content under a published version, is refused by name; what it was stays.
    """
    return await bootstrap.deploy(caller)


@router.get("/bootstrap/definitions")
async def bootstrap_definitions(bootstrap: Door, _caller: Operator) -> list[PublishedDefinition]:
    """Every definition that was ever published: what a file's version must not be used again for."""
    return await bootstrap.published()


@router.post("/bootstrap/migrate")
async def bootstrap_migrate(bootstrap: Door, caller: Admin) -> BootstrapDone:
    """Bring the schema up to date."""
    return BootstrapDone(done="migrate", changed=await bootstrap.migrate(caller))


@router.post("/bootstrap/rebuild")
async def bootstrap_rebuild(bootstrap: Door, caller: Admin) -> BootstrapDone:
    """Delete all data and make the schema anew. Development only; platforms and credentials stay."""
    await bootstrap.rebuild(caller)
    return BootstrapDone(done="rebuild", changed=True)
