"""What people decide on the console's pages: the API's own use cases, each in one transaction of its own."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy.ext.asyncio import AsyncSession

from domain.api.dependencies import ServiceState
from domain.console.forms import Model, checked, form_of
from domain.console.people import CONSOLE, NotSignedIn, Person, check_form, need, person_of
from domain.console.versions import Ordinal, version_page
from domain.contracts.assets import ChangeClearance, ChangeExposure
from domain.contracts.commands import LayerWords
from domain.contracts.problems import ProblemError
from domain.contracts.reviews import Approve, Reject, Unpublish, Withdraw
from domain.errors import NotFound
from domain.rules.clearance import REVIEWERS
from domain.services.assembly import exports_of, review_desk
from domain.services.publication.assets import AssetChanges
from domain.services.publication.deciding import FilesRead, decided
from domain.services.publication.reviews import Reviews
from domain.state import Service

router = APIRouter()
Form = Annotated[dict[str, str], Depends(form_of)]


@dataclass(frozen=True)
class Sent:
    """A form about a version, with the transaction that carries it out."""

    session: AsyncSession
    files: FilesRead
    service: Service
    who: Person
    asset_id: str
    ordinal: int
    form: dict[str, str]

    def reviews(self) -> Reviews:
        return review_desk(self.session, self.service, self.files, self._if_match("version_lock"))

    def changes(self) -> AssetChanges:
        return AssetChanges(self.session, exports_of(self.session, self.service), self._if_match("asset_lock"))

    def reasoned(self, model: type[Model]) -> Model:
        """Return the form as a model that needs a revision and a reason."""
        return checked(model, revision=self.form.get("revision"), reason=self.form.get("reason", ""))

    def _if_match(self, name: str) -> str | None:
        """Return the entity tag of the state that the form's page showed."""
        return f'"{self.form[name]}"' if self.form.get(name) else None


async def _approve(sent: Sent) -> object:
    given = {name: sent.form.get(name) or None for name in ("revision", "clearance_level", "comment", "content_hash")}
    if day := sent.form.get("ends_on"):
        given["expires_at"] = f"{day}T23:59:59Z"
    return await sent.reviews().approve(sent.asset_id, sent.ordinal, checked(Approve, **given), sent.who.identity)


async def _reject(sent: Sent) -> object:
    return await sent.reviews().reject(sent.asset_id, sent.ordinal, sent.reasoned(Reject), sent.who.identity)


async def _withdraw(sent: Sent) -> object:
    return await sent.reviews().withdraw(sent.asset_id, sent.ordinal, sent.reasoned(Withdraw), sent.who.identity)


async def _unpublish(sent: Sent) -> object:
    return await sent.reviews().unpublish(sent.asset_id, sent.ordinal, sent.reasoned(Unpublish), sent.who.identity)


async def _change_clearance(sent: Sent) -> object:
    asked = {"clearance_level": sent.form.get("clearance_level"), "reason": sent.form.get("reason", "")}
    return await sent.changes().clearance(sent.asset_id, checked(ChangeClearance, **asked), sent.who.identity)


async def _change_exposure(sent: Sent) -> object:
    wanted = checked(ChangeExposure, exposure=sent.form.get("exposure"))
    return await sent.changes().exposure(sent.asset_id, wanted, sent.who.identity)


async def _keep_words(sent: Sent) -> object:
    said = {name: sent.form.get(name, "") for name in ("title", "description")}
    keywords = [word.strip() for word in sent.form.get("keywords", "").split(",")]
    wanted = checked(
        LayerWords,
        **said,
        keywords=[word for word in keywords if word],
        attribution=sent.form.get("attribution") or None,
        license=sent.form.get("license") or "other",
    )
    return await sent.changes().words(sent.asset_id, wanted, sent.who.identity)


VERBS: Final[Mapping[str, Callable[[Sent], Awaitable[object]]]] = {
    "approve": _approve,
    "reject": _reject,
    "withdraw": _withdraw,
    "unpublish": _unpublish,
    "clearance": _change_clearance,
    "exposure": _change_exposure,
    "words": _keep_words,
}


async def decider(request: Request, state: ServiceState, form: Form) -> Person:
    """Return who sent the form, before the decision's own transaction begins."""
    async with state.database.transaction() as session:
        who = await person_of(request, session)
    if who is None:
        raise NotSignedIn
    check_form(who, form)
    need(who, *REVIEWERS)
    return who


@router.post("/versions/{asset_id}/{ordinal}/{verb}")
async def decide(
    request: Request,
    state: ServiceState,
    who: Annotated[Person, Depends(decider)],
    form: Form,
    asset_id: str,
    ordinal: Ordinal,
    verb: str,
) -> Response:
    """Carry the decision out and go back to the version's page, which shows a refusal beside what was typed."""
    if verb not in VERBS:
        raise NotFound("There is no such decision.")

    async def act(session: AsyncSession, files: FilesRead) -> None:
        await VERBS[verb](Sent(session, files, state, who, asset_id, ordinal, form))

    try:
        await decided(state.database, state.file_checks, act)
    except ProblemError as refused:
        async with state.database.transaction() as session:
            return await version_page(request, session, state, who, asset_id, ordinal, refused, verb, form)
    return RedirectResponse(f"{CONSOLE}/versions/{asset_id}/{ordinal}", 303)
