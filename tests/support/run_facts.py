"""The facts of a run that makes a revision of an asset, as its tries are told them, and where its products lie."""

from datetime import UTC, datetime

from domain.contracts.runs import RunFacts

FIRST_ATTEMPT = RunFacts(
    id="run",
    request_id="request",
    received_at=datetime(2026, 1, 1, tzinfo=UTC),
    attempt=1,
    asset_id="asset",
    version_ordinal=0,
    revision=1,
)
SECOND_ATTEMPT = FIRST_ATTEMPT.model_copy(update={"attempt": 2})
HOME = "assets/asset/0-r1"
