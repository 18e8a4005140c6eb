"""The domain's refusals: each class carries its code, status and title."""

from domain.contracts.problems import ProblemError


class DomainError(ProblemError):
    """Root of what the domain refuses."""


class NotFound(DomainError):
    code, status, title = "not-found", 404, "There is no such thing"


class Unauthenticated(DomainError):
    code, status, title = "unauthenticated", 401, "No valid credential was given"


class Forbidden(DomainError):
    code, status, title = "forbidden", 403, "This credential may not do that"


class InvalidSubmission(DomainError):
    code, status, title = "invalid-submission", 422, "The submission cannot be accepted as it is"


class NoWorkflow(DomainError):
    code, status, title = "no-workflow", 422, "No workflow accepts this"


class KeyReused(DomainError):
    code, status, title = "idempotency-key-reused", 422, "This idempotency key belongs to another submission"


class VersionBlocked(DomainError):
    code, status, title = "version-blocked", 409, "An earlier version must be resolved first"


class Fenced(DomainError):
    code, status, title = "attempt-fenced", 409, "This attempt is no longer the run's current one"


class NotReviewable(DomainError):
    code, status, title = "not-reviewable", 409, "This revision cannot be decided now"


class StaleRevision(DomainError):
    code, status, title = "stale-revision", 412, "The version has changed since it was looked at"


class ChangedMeanwhile(DomainError):
    code, status, title = "changed-meanwhile", 412, "It has changed since it was looked at"


class PreconditionRequired(DomainError):
    code, status, title = "precondition-required", 428, "Say which state this change is meant for"


class AlreadyFinished(DomainError):
    code, status, title = "already-finished", 409, "It is over"


class NotRerunnable(DomainError):
    code, status, title = "not-rerunnable", 409, "This cannot be run again"


class Paused(DomainError):
    code, status, title = "paused", 503, "Work is paused"


class TooManyOpen(DomainError):
    code, status, title = "too-many-open-requests", 429, "The platform has too many open requests"


class StillServed(DomainError):
    code, status, title = "still-served", 409, "What is served cannot be deleted"
