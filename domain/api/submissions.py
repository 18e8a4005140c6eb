"""Where the gateway hands submissions in."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from domain.api.dependencies import InTurn, allowed, callback_desk, submissions
from domain.contracts.submissions import SubmissionAnswer
from domain.security import Identity
from domain.services.operations.callbacks import CallbackDesk
from domain.services.submissions.accept import Submissions

router = APIRouter(prefix="/api/v1", tags=["gateway"])


@router.post("/submit", status_code=202)
async def submit(
    turn: InTurn,  # before who may: that takes a connection
    _gateway: Annotated[Identity, Depends(allowed("gateway"))],
    response: Response,
    use_case: Annotated[Submissions, Depends(submissions)],
    callbacks: Annotated[CallbackDesk, Depends(callback_desk)],
) -> SubmissionAnswer:
    """Take a submission in. An equal one that is already being served answers 200 with its id."""
    await callbacks.accept(turn.submission.client_id, turn.submission.callback_url)
    answer = await use_case.submit(turn)
    response.headers["Location"] = f"/api/v1/requests/{answer.request_id}"
    if answer.duplicate:
        response.status_code = 200
    return answer
