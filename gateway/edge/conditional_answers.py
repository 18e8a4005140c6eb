"""Sets what may be cached of an answer: entity tags and 304 for its own reader, nothing for others."""

import hashlib

from fastapi import Response
from pydantic import BaseModel

# What is one partner's must not be given to another by something in between.
PRIVATE = {"Cache-Control": "private, no-cache", "Vary": "Authorization, X-API-Key"}


async def private(response: Response) -> None:
    """Forbid caching by others, for routes whose answers are the caller's own and have no tag."""
    response.headers.update(PRIVATE)


def tag_of(content: bytes) -> str:
    """The entity tag of these bytes."""
    return f'"{hashlib.sha256(content).hexdigest()[:32]}"'


def knows(if_none_match: str | None, tag: str) -> bool:
    """Whether the caller has this version already. Weak tags match for reading, as RFC 9110 has it."""
    known = [one.strip().removeprefix("W/") for one in (if_none_match or "").split(",")]
    return "*" in known or tag in known


def conditional(answer: BaseModel, if_none_match: str | None, headers: dict[str, str]) -> Response:
    """Return the answer, or 304 where the caller has it already."""
    content = answer.model_dump_json().encode()
    tag = tag_of(content)
    headers |= PRIVATE | {"ETag": tag}
    if knows(if_none_match, tag):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type="application/json", headers=headers)
