"""Refuses a version that another one keeps out, with the ways that are open to whoever submits."""

from sqlalchemy.ext.asyncio import AsyncSession

from domain.contracts.submissions import SubmissionCreate
from domain.errors import VersionBlocked
from domain.repositories.assets import Assets
from domain.repositories.platforms import Platforms
from domain.repositories.requests import Requests
from domain.rules.blocking import Asker, Standing, advice, ways
from domain.rules.clearance import may_review
from domain.rules.versions import Blocked
from domain.services.publication.approvals import Ballot


async def blocked(session: AsyncSession, submission: SubmissionCreate, asset_id: str, by: Blocked) -> VersionBlocked:
    """Return the refusal. The asset is locked, so its advice is true at this moment."""
    assets = Assets(session)
    asset = await assets.taken(asset_id)
    standing = Standing(by.approval, by.processing, asset.clearance != "uncleared")
    open_ways = ways(standing, await _asker(session, submission, asset_id, by))
    return VersionBlocked(
        f"Version {submission.version_label!r} cannot be accepted while version {by.label!r} is {standing.words}. "
        + advice(by.label, standing, open_ways),
        blocking_version=by.label,
        blocking_state=by.approval.value,
        blocking_processing=by.processing.value,
        ways=[way.value for way in open_ways],
    )


async def _asker(session: AsyncSession, submission: SubmissionCreate, asset_id: str, by: Blocked) -> Asker:
    identity = await Platforms(session).identity_of(submission.client_id)
    request = await Requests(session).of_version(asset_id, by.ordinal, by.revision)
    revision = await Assets(session).revision(asset_id, by.ordinal, by.revision)
    asset = await Assets(session).taken(asset_id)
    approved_by = (await Ballot(session, asset, revision).count()).reviewers if revision else ()
    return Asker(
        may_review=identity is not None and may_review(identity, submission.platform_id),
        sent_the_revision=request.client_id == submission.client_id,
        sent_some_of_the_asset=submission.client_id in await Assets(session).requesters(asset_id),
        has_approved=submission.client_id in approved_by,
    )
