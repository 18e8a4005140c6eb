"""What routes ask for: the caller, a transaction, the use cases on it. All async: FastAPI sends the rest to threads."""

from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Header, Request
from sqlalchemy.ext.asyncio import AsyncSession

from domain.errors import Forbidden, Unauthenticated
from domain.repositories.platforms import Platforms
from domain.security import Identity, Role, secret_hash
from domain.services.assets import AssetChanges
from domain.services.queueing import InternalRuns
from domain.services.reviews import Reviews
from domain.services.runs import RunLifecycle
from domain.services.submissions import Submissions
from domain.state import Service


async def service(request: Request) -> Service:
    """What the application made at its start."""
    made: Service = request.app.state.service
    return made


ServiceState = Annotated[Service, Depends(service)]


async def transaction(state: ServiceState) -> AsyncIterator[AsyncSession]:
    """One transaction for the request."""
    async with state.database.transaction() as session:
        yield session


# `function` scope commits before the answer is sent: nobody is told of what could still be rolled back.
Session = Annotated[AsyncSession, Depends(transaction, scope="function")]


async def credential(request: Request) -> str:
    """The secret of `Authorization: Bearer …` or `X-API-Key`."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    secret = token.strip() if scheme.lower() == "bearer" else request.headers.get("x-api-key", "")
    if not secret:
        raise Unauthenticated("Send an API key in X-API-Key, or a token in Authorization: Bearer.")
    return secret


def allowed(*roles: Role) -> Callable[..., Coroutine[Any, Any, Identity]]:
    """A dependency that lets only these roles through."""

    async def identify(session: Session, secret: Annotated[str, Depends(credential)]) -> Identity:
        identity = await Platforms(session).identity(secret_hash(secret))
        if identity is None:
            raise Unauthenticated("This credential is unknown or was withdrawn.")
        if identity.role not in roles:
            raise Forbidden(f"This needs one of the roles {', '.join(roles)}; the credential is a {identity.role}'s.")
        return identity

    return identify


async def submissions(session: Session, state: ServiceState) -> Submissions:
    return Submissions(session, state.definitions, state.quotas)


async def internal_runs(session: Session, state: ServiceState) -> InternalRuns:
    return InternalRuns(session, state.definitions)


async def lifecycle(session: Session, state: ServiceState) -> RunLifecycle:
    return RunLifecycle(session, state.settings.max_attempts)


IfMatch = Annotated[str | None, Header(description="The ETag of what was read, or * for whatever is there")]


async def reviews(session: Session, state: ServiceState, if_match: IfMatch = None) -> Reviews:
    return Reviews(session, state.zones, str(state.settings.public_url), if_match)


async def asset_changes(session: Session, if_match: IfMatch = None) -> AssetChanges:
    return AssetChanges(session, if_match)
