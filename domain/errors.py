"""The domain's refusals: each class carries its code, status and title."""

from domain.contracts.problems import ProblemError

RETRY_SECONDS = 1  # told to whoever asked while the database was away


class DomainError(ProblemError):
    """Root of what the domain refuses."""


class NotFound(DomainError):
    code, status, title = "not-found", 404, "There is no such thing"


class Forbidden(DomainError):
    code, status, title = "forbidden", 403, "This credential may not do that"


class InvalidSubmission(DomainError):
    code, status, title = "invalid-submission", 422, "The submission cannot be accepted as it is"


class NoWorkflow(DomainError):
    code, status, title = "no-workflow", 422, "No workflow accepts this"


class KeyReused(DomainError):
    code, status, title = "idempotency-key-reused", 422, "This idempotency key belongs to another submission"


class RequestIdTaken(DomainError):
    code, status, title = "request-id-taken", 409, "This request id belongs to another submission"


class SubmissionUnderWay(DomainError):
    code, status, title = "submission-under-way", 409, "Another submission about the same is being accepted"


class VersionBlocked(DomainError):
    code, status, title = "version-blocked", 409, "An earlier version must be resolved first"


class Fenced(DomainError):
    code, status, title = "attempt-fenced", 409, "This attempt is no longer the run's current one"


class Reopened(DomainError):
    code, status, title = "reopened", 409, "The run was opened again"


class NotReviewable(DomainError):
    code, status, title = "not-reviewable", 409, "This revision cannot be decided now"


class InvalidDecision(DomainError):
    code, status, title = "invalid-decision", 422, "The decision cannot be made as it was sent"


class StaleRevision(DomainError):
    code, status, title = "stale-revision", 412, "The version has changed since it was looked at"


class CallbackRefused(DomainError):
    code, status, title = "callback-refused", 422, "No callback can be sent there"


class CallbackUnderWay(DomainError):
    code, status, title = "callback-under-way", 409, "This callback is being delivered already"


class Unkept(DomainError):
    code, status, title = "malformed-request", 422, "The request is malformed"


class InvalidPage(DomainError):
    code, status, title = "invalid-page", 422, "There is no such page"


class ClientExists(DomainError):
    code, status, title = "client-exists", 409, "This client id is taken"


class ClientRevoked(DomainError):
    code, status, title = "client-revoked", 409, "This client was revoked"


class InvalidClient(DomainError):
    code, status, title = "invalid-client", 422, "Such a client cannot be made"


class InvalidCommand(DomainError):
    code, status, title = "invalid-command", 422, "This command cannot be done as it was sent"


class NotPublishable(DomainError):
    code, status, title = "not-publishable", 409, "There is nothing to publish"


class ScratchAsset(DomainError):
    code, status, title = "scratch-asset", 409, "What an operator's own run made is never published"


class NotConfigured(DomainError):
    code, status, title = "not-configured", 409, "This service is not set up for that"


class NotInDevelopment(DomainError):
    code, status, title = "development-only", 403, "This is done in development only"


class DatabaseUnavailable(DomainError):
    code, status, title = "database-unavailable", 503, "Our database does not answer"


def no_database() -> DatabaseUnavailable:
    """Return the refusal while the database is away or has no free connection; every call may be repeated."""
    return DatabaseUnavailable("Nothing that was accepted is lost. Ask again.", retry_after_seconds=RETRY_SECONDS)


class StorageUnavailable(DomainError):
    code, status, title = "storage-unavailable", 503, "Our storage does not answer"


class Unstored(DomainError):
    code, status, title = "not-in-storage", 409, "What is needed for this is not in storage"


class ContentDiffers(DomainError):
    code, status, title = "content-differs", 409, "A file is not what its run committed"


class FilesBeingRead(DomainError):
    code, status, title = "files-being-read", 503, "The files are still being read"


class ExternalUnavailable(DomainError):
    code, status, title = "external-unavailable", 503, "Another system does not answer"


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
