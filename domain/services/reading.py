"""Reads files from storage for use cases; a failure becomes a refusal that says whether to ask again."""

import contextlib
from collections.abc import Iterator

from domain.errors import StorageUnavailable, Unstored
from flows.handlers.errors import HandlerError, InvalidInput
from flows.storage import Store

RETRY_SECONDS = 5  # a store has tried for longer before it gives up


@contextlib.contextmanager
def storage_answers() -> Iterator[None]:
    """Turn what stores raise into refusals of ours; the log gets the details, which name our own places."""
    try:
        yield
    except InvalidInput as error:
        raise lost() from error
    except (HandlerError, OSError) as error:
        raise StorageUnavailable(
            "Our storage does not answer. Nothing was changed: try again in a moment.",
            retry_after_seconds=RETRY_SECONDS,
        ) from error


def lost() -> Unstored:
    """Return the refusal where a needed file is gone."""
    return Unstored("A file of it is not in storage any more. Have it submitted again.")


def content(store: Store, name: str) -> bytes:
    """Return the whole blob for showing it; what is published is read by `file_checks`."""
    with storage_answers():
        return store.read_bytes(name)
