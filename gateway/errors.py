"""The gateway's refusals."""

from domain.contracts.problems import ProblemError


class GatewayError(ProblemError):
    """Root of what the gateway refuses by itself."""


class NotFound(GatewayError):
    code, status, title = "not-found", 404, "There is no such thing"


class Forbidden(GatewayError):
    code, status, title = "forbidden", 403, "This credential may not do that"


class InvalidSubmission(GatewayError):
    code, status, title = "invalid-submission", 422, "The submission cannot be accepted as it is"


class TooLarge(GatewayError):
    code, status, title = "body-too-large", 413, "The request body is too large"


class BehindUnavailable(GatewayError):
    code, status, title = "temporarily-unavailable", 503, "A part of the platform does not answer"


class DomainRefused(GatewayError):
    """The domain answered with a problem of its own: passed on as it is."""

    def __init__(self, status: int, code: str, title: str, detail: str, **extra: object) -> None:
        super().__init__(detail, **extra)
        self.code, self.status, self.title = code, status, title  # type: ignore[misc]
