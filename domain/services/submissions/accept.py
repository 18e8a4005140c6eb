"""Takes a submission in: one transaction that ends with a request, its run, and an attempt for the relay to send."""

from dataclasses import dataclass, replace
from typing import Any, assert_never
from uuid import UUID

from psycopg.errors import LockNotAvailable
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncSession

from domain.after_commit import after_commit
from domain.contracts.submissions import SubmissionAnswer, SubmissionCreate
from domain.errors import InvalidSubmission, KeyReused, NotFound, RequestIdTaken
from domain.models import Request
from domain.repositories.assets import Assets
from domain.repositories.intake import Accepted, FirstRun, Intake
from domain.repositories.precedents import LockedAsset, Precedent, Precedents, References, Seen
from domain.repositories.requests import Requests
from domain.rules import identity, keys, versions
from domain.rules.fairness import capped
from domain.rules.lifecycle import REQUEST
from domain.rules.sources import RefusedSource, SourcePolicy, check
from domain.services.operations.workflow_definitions import Definitions
from domain.services.publication.assets import revive
from domain.services.runs.endings import RunLifecycle
from domain.services.runs.queueing import checked_inputs, first_run, queue_steps
from domain.services.submissions.blocking import blocked
from domain.services.submissions.quotas import Quotas
from domain.services.submissions.waiting_line import Turn, under_way
from flows.compiler import Plan, RequestPlan

NOT_IDENTIFYING = {"request_id", "client_id", "idempotency_key", "batch"}


@dataclass(frozen=True)
class Submissions:
    """`submit` is the use case; everything else serves it."""

    session: AsyncSession
    definitions: Definitions
    quotas: Quotas
    sources: SourcePolicy

    async def submit(self, turn: Turn) -> SubmissionAnswer:
        """Accept the submission in its turn, or recognise it as one that was accepted before."""
        if turn.late is not None:
            raise under_way(turn.late.holder or await Precedents(self.session).ahead(turn.submission))
        try:
            return await self._accept(turn, turn.submission)
        except (LockNotAvailable, OperationalError) as error:
            if not isinstance(getattr(error, "orig", error), LockNotAvailable):
                raise
            raise turn.refusal(await Precedents(self.session).ahead(turn.submission)) from error

    async def _accept(self, turn: Turn, submission: SubmissionCreate) -> SubmissionAnswer:
        after_commit(self.session).failpoint = "submit"
        precedents = Precedents(self.session)
        platform = await self._require_platform(submission, precedents, turn.seconds_left)
        plan = self.definitions.accepting(submission.data_type, submission.operation)
        _refuse_source(submission.source, replace(self.sources, prefixes=tuple(platform.source_prefixes)))
        inputs = resolve_inputs(plan, submission.source, submission.parameters)
        fingerprint = _fingerprint(submission)
        asset_id = identity.asset_id(submission.platform_id, submission.refs)
        if submission.batch is not None:
            await _refuse_another_batch(submission, submission.batch, precedents)
        if submission.idempotency_key is not None:
            await precedents.take_key(submission.platform_id, submission.idempotency_key)
        taken = await precedents.take_asset(asset_id, submission)
        turn.note_locks_held()
        before = await precedents.read(asset_id, submission)
        if before.seen:
            return _answer_repeat(before.seen, submission, fingerprint)
        if taken.was_deleted or taken.data_type != submission.data_type:
            await self._renew_asset(asset_id, taken, submission, before)
        placement = versions.place(submission.version_label, fingerprint, before.versions, before.next_ordinal)
        if isinstance(placement, versions.NewVersion | versions.Resubmission):
            await self.quotas.refuse_over(self.session, submission.platform_id)
        match placement:
            case versions.Blocked():
                raise await blocked(self.session, submission, asset_id, placement)
            case versions.Duplicate(ordinal, revision):
                request_id = await Assets(self.session).request_of(asset_id, ordinal, revision)
                return await self._duplicate(submission, request_id)
            case versions.NewVersion(ordinal):
                revision = 1
            case versions.Resubmission(ordinal, revision, _):
                await self._supersede(asset_id, ordinal, revision)
            case _:
                assert_never(placement)
        priority = capped(submission.priority, platform.priority_cap)
        accepted = Accepted(submission, fingerprint, asset_id, ordinal, revision, priority)
        if isinstance(plan, RequestPlan):
            await self._queue_steps(accepted, plan, inputs)
        else:
            definition = self.definitions.named(plan.workflow_id)
            await self._write(accepted, first_run(definition, inputs, priority))
        return SubmissionAnswer(request_id=submission.request_id, status=REQUEST.initial.value, priority=priority)

    async def _require_platform(
        self, submission: SubmissionCreate, precedents: Precedents, wait_seconds: float
    ) -> References:
        """Return what is known of the platform; refuse an unknown one, and references that are not its own."""
        platform = await precedents.begin(submission, wait_seconds)
        if platform is None:
            raise NotFound(f"There is no active platform {submission.platform_id!r}.")
        faults = identity.ref_faults(submission.refs, platform.required, platform.optional)
        if faults:
            raise InvalidSubmission("; ".join(faults) + ".", faults=faults)
        return platform

    async def _write(self, accepted: Accepted, run: FirstRun | None) -> None:
        if not await Intake(self.session).write(accepted, run):
            raise _id_taken(accepted.submission)

    async def _queue_steps(self, accepted: Accepted, plan: RequestPlan, inputs: dict[str, Any]) -> None:
        """Queue a request of several runs: write it alone, then its steps."""
        await self._write(accepted, None)
        request = await Requests(self.session).get(accepted.submission.request_id)
        if request is None:
            raise NotFound("The request that was just written is gone.")
        await queue_steps(self.session, request, plan, inputs, self.definitions)

    async def _renew_asset(
        self, asset_id: str, taken: LockedAsset, submission: SubmissionCreate, before: Precedent
    ) -> None:
        """Refuse another data type for an asset with versions; let one without versions begin anew."""
        if before.versions and taken.data_type != submission.data_type:
            raise InvalidSubmission(
                f"The asset of these references is a {taken.data_type}, and this is a {submission.data_type}. "
                "Submit it under references of its own, or delete the asset first."
            )
        asset = await Assets(self.session).taken(asset_id)
        asset.data_type = submission.data_type
        if taken.was_deleted:
            revive(self.session, asset, submission.client_id)

    async def _duplicate(self, submission: SubmissionCreate, request_id: UUID | None) -> SubmissionAnswer:
        """Return the request that stands for this submission too, whatever key it was sent under."""
        request = await Requests(self.session).get(request_id) if request_id else None
        if request is None:
            raise NotFound("The request of this version is gone.")
        if submission.idempotency_key is not None:
            await Precedents(self.session).keep_key(submission, request.request_id)
        return _duplicate_of(request)

    async def _supersede(self, asset_id: str, ordinal: int, revision: int) -> None:
        """Stage a new revision of a known version; what still runs for the one before is cancelled and fenced."""
        version = await Assets(self.session).version(asset_id, ordinal)
        if version is None:
            raise NotFound("The version was deleted in the meantime.")
        earlier = await Requests(self.session).of_version(asset_id, ordinal, version.newest_revision)
        await RunLifecycle(self.session).cancel_request(earlier, actor="superseded by a resubmission")
        await Assets(self.session).unlist(asset_id, ordinal)
        version.newest_revision = revision
        version.lock_version += 1


def _answer_repeat(earlier: Seen, submission: SubmissionCreate, fingerprint: str) -> SubmissionAnswer:
    """Answer a repeated id or key like the first time; refuse it with another body."""
    if earlier.fingerprint == fingerprint:
        return _duplicate_of(earlier)
    if earlier.request_id == submission.request_id:
        raise _id_taken(submission)
    raise KeyReused("This idempotency key was used with another body. Send the same body, or a new key.")


def _duplicate_of(earlier: Seen | Request) -> SubmissionAnswer:
    told = {"request_id": earlier.request_id, "status": earlier.status.value, "priority": earlier.priority}
    return SubmissionAnswer.model_validate(told | {"duplicate": True})


async def _refuse_another_batch(submission: SubmissionCreate, mark: str, precedents: Precedents) -> None:
    """Refuse a batch key whose first accepted submission came with another batch.

    Until there is one, those whose keys follow from the batch's take turns: two batches cannot both be the first.
    """
    known = await precedents.batch_of(submission.platform_id, mark)
    if known is None and (submission.idempotency_key or "").startswith(mark):
        await precedents.take_key(submission.platform_id, keys.common(mark))
        known = await precedents.batch_of(submission.platform_id, mark)
    if known is not None and known != mark:
        told = "This idempotency key was used with another batch. Send the same batch, or a new key."
        raise KeyReused(told, about="batch")


def _refuse_source(source: str, policy: SourcePolicy) -> None:
    try:
        check(source, policy)
    except RefusedSource as fault:
        raise InvalidSubmission(str(fault)) from None


def resolve_inputs(plan: Plan | RequestPlan, source: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """The workflow's inputs, with every fault of them in one refusal."""
    if "source" in parameters:
        raise InvalidSubmission("Name the source in `source`, not in `parameters`.")
    given = {"source": source, **parameters} if "source" in plan.inputs else parameters
    return checked_inputs(plan, given)


def _fingerprint(submission: SubmissionCreate) -> str:
    """Return what two submissions must share to ask for the same, whoever sent them when and under which key."""
    identifying = submission.model_dump(mode="json", exclude=NOT_IDENTIFYING)
    return identity.fingerprint(identifying)


def _id_taken(submission: SubmissionCreate) -> RequestIdTaken:
    return RequestIdTaken(f"Request {submission.request_id} is another submission. Send this one under a new id.")
