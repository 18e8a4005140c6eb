"""Identifies people at the console: sessions by cookie, and two ways to sign in. Routes use it; it reads the tables."""

import logging
import secrets
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request, Response
from sqlalchemy.ext.asyncio import AsyncSession

from domain.api.dependencies import ServiceState, Session
from domain.contracts.console import SESSION_COOKIE
from domain.contracts.problems import ProblemError
from domain.errors import Forbidden
from domain.repositories.platforms import Platforms
from domain.repositories.sessions import Sessions
from domain.rules.clearance import REVIEWERS
from domain.rules.console import is_token
from domain.rules.provider import Vouched
from domain.security import STAFF, Identity, Role, secret_hash
from domain.services.operations.audit import record
from domain.shared.authentication import Unauthenticated
from domain.state import Service

log = logging.getLogger("cairn.console")
PENDING_COOKIE = "cairn_sign_in"
CONSOLE = "/console"


class NotBound(ProblemError):
    code, status, title = "not-bound", 403, "You are not registered here"


class NotSignedIn(Exception):
    """Somebody without a session asked for a page."""


@dataclass(frozen=True)
class Person:
    """Who is signed in, as pages need to know it."""

    identity: Identity
    name: str
    form_token: str

    @property
    def may_decide(self) -> bool:
        return self.identity.role in REVIEWERS

    @property
    def may_operate(self) -> bool:
        return self.identity.role in {"operator", "admin"}


async def person(request: Request, session: Session) -> Person:
    """The holder of the session that the browser's cookie names."""
    if (found := await person_of(request, session)) is None:
        raise NotSignedIn
    return found


async def person_of(request: Request, session: AsyncSession) -> Person | None:
    secret = request.cookies.get(SESSION_COOKIE)
    found = await Sessions(session).holder(secret_hash(secret)) if secret else None
    if found is None or found[0].role not in STAFF:
        return None
    return Person(*found)


Reader = Annotated[Person, Depends(person)]


def need(who: Person, *roles: Role) -> None:
    """Refuse a person who has none of the roles, in the API's words."""
    if who.identity.role not in roles:
        raise Forbidden(f"This needs one of the roles {', '.join(roles)}; you are signed in as {who.identity.role}.")


def check_form(who: Person, form: dict[str, str]) -> None:
    """Refuse a form that was not made for this session."""
    if not is_token(who.form_token, form.get("form_token", "")):
        raise Forbidden("This form belongs to another session. Load the page again and repeat what you did.")


@dataclass(frozen=True)
class FrontDesk:
    """Signs people in and out. Each sign-in makes a new session, so that nobody can bring one along."""

    session: AsyncSession
    service: Service

    async def sign_in_by_key(self, client_id: str, key: str, address: str) -> str:
        """The secret of a new session for a local user: a registered client of staff, by its key."""
        if not self.local_users:
            raise Forbidden("Local users are switched off here.")
        holder = await self.service.authentication.identify(key, address, Platforms(self.session))
        if not secrets.compare_digest(holder.client_id.encode(), client_id.encode()):
            self.service.authentication.note(key, address, right=False)
            raise Unauthenticated("Name and password do not belong together.")
        return await self._begin(holder, "key", secret_hash(key))

    async def sign_in_by_provider(self, person: Vouched) -> str:
        """Return the secret of a new session for a person whom an administrator has bound to a client."""
        holder = await Platforms(self.session).identity_vouched_for(person)
        if holder is None:
            log.info("nobody is bound to", extra={"issuer": person.issuer, "subject": person.subject})
            raise NotBound(
                "You are known to the sign-in service, but to nobody here. Show this page to an administrator, who "
                "says which client you are: "
                f"cairn clients bind CLIENT --issuer {person.issuer} --subject {person.subject}"
            )
        return await self._begin(holder, "oidc")

    async def sign_out(self, secret: str, who: Identity) -> None:
        await Sessions(self.session).end(secret_hash(secret))
        record(self.session, who, "console.sign-out", f"client/{who.client_id}")

    @property
    def local_users(self) -> bool:
        return self.service.settings.console_local_users or self.service.settings.development

    async def _begin(self, holder: Identity, way: str, key_hash: str | None = None) -> str:
        if holder.role not in STAFF:
            raise Forbidden(f"The console is for staff; this is a {holder.role}'s identity.")
        secret = secrets.token_urlsafe(32)
        await Sessions(self.session).begin(
            secret_hash(secret),
            secrets.token_urlsafe(32),
            self.service.settings.console_session_seconds,
            holder.client_id,
            key_hash,
        )
        record(self.session, holder, "console.sign-in", f"client/{holder.client_id}", way=way)
        return secret


async def front_desk(session: Session, state: ServiceState) -> FrontDesk:
    return FrontDesk(session, state)


Desk = Annotated[FrontDesk, Depends(front_desk)]


def give_cookie(
    response: Response, name: str, secret: str, path: str, service: Service, max_age: int | None = None
) -> None:
    """A cookie that scripts cannot read and other sites' pages cannot send along."""
    response.set_cookie(
        name, secret, path=path, max_age=max_age, httponly=True, samesite="lax", secure=not service.settings.development
    )
