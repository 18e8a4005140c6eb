"""The gateway's refusals."""

from domain.contracts.problems import ProblemError

RETRY_SECONDS = 5


class GatewayError(ProblemError):
    """Root of what the gateway refuses by itself."""


class NotFound(GatewayError):
    code, status, title = "not-found", 404, "There is no such thing"


class Forbidden(GatewayError):
    code, status, title = "forbidden", 403, "This credential may not do that"


class InvalidSubmission(GatewayError):
    code, status, title = "invalid-submission", 422, "The submission cannot be accepted as it is"


class MalformedRequest(GatewayError):
    code, status, title = "malformed-request", 422, "The request is malformed"


class InvalidQuery(GatewayError):
    code, status, title = "invalid-query", 422, "The query cannot be answered"


class ResultNotReady(GatewayError):
    code, status, title = "result-not-ready", 404, "There are no results yet"


class JobFailed(GatewayError):
    code, status, title = "job-failed", 422, "The job failed and has no results"


class MethodNotAllowed(GatewayError):
    code, status, title = "method-not-allowed", 405, "This may not be asked in this way"


class TooDeep(GatewayError):
    code, status, title = "body-too-deep", 422, "The request body is nested too deeply"


class NotUtf8(GatewayError):
    code, status, title = "body-not-utf8", 422, "The request body is not UTF-8"


class TooManyCalls(GatewayError):
    code, status, title = "too-many-calls", 429, "You call more often than you may"


class TooManyStreams(GatewayError):
    code, status, title = "too-many-streams", 429, "Too many answers are on their way to you"


class Busy(GatewayError):
    code, status, title = "busy", 503, "There is no room for this right now"


class BehindUnavailable(GatewayError):
    """A service that we forward to or read from does not answer. The refusal says when to ask again."""

    code, status, title = "temporarily-unavailable", 503, "A part of the platform does not answer"

    def __init__(self, detail: str, **extra: object) -> None:
        super().__init__(detail, **{"retry_after_seconds": RETRY_SECONDS} | extra)


class NotOffered(GatewayError):
    code, status, title = "not-offered-here", 501, "This is not offered here"


class CoreFailed(GatewayError):
    """An internal error of this one call, so that others may go on."""

    code, status, title = "core-failed", 503, "The platform could not do this"


class DomainRefused(GatewayError):
    """The domain answered with a problem of its own: passed on as it is."""

    def __init__(self, status: int, code: str, title: str, detail: str, **extra: object) -> None:
        super().__init__(detail, **extra)
        self.code, self.status, self.title = code, status, title  # type: ignore[misc]
