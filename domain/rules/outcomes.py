"""How much a run hands in at most. Whoever plans work refuses at its start what would exceed this at its end. Pure."""

from typing import Final

RESULT_BYTES: Final = 1_000_000  # of JSON, all its outputs together
MOST_ARTIFACTS: Final = 50_000


def artifacts_fault(count: int) -> str | None:
    """Return why these are too many artifacts for a run, or None."""
    if count <= MOST_ARTIFACTS:
        return None
    return f"The run leaves {count:,} artifacts; at most {MOST_ARTIFACTS:,} are taken. Divide its work among several."
