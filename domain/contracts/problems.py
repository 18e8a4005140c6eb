"""Problem documents (RFC 9457) with a stable `code`, and the root of all errors that become one."""

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict


class Problem(BaseModel):
    """What went wrong, for programs by `code` and for people by `detail`."""

    model_config = ConfigDict(extra="allow")

    type: str = "about:blank"
    title: str
    status: int
    code: str
    detail: str

    def body(self) -> dict[str, Any]:
        return self.model_dump(mode="json")


class ProblemError(Exception):
    """A refusal that the caller can act on. The message is written for them."""

    code: ClassVar[str] = "internal-error"
    status: ClassVar[int] = 500
    title: ClassVar[str] = "The request could not be served"

    def __init__(self, detail: str, **extra: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.extra = extra

    def problem(self) -> Problem:
        return Problem(title=self.title, status=self.status, code=self.code, detail=self.detail, **self.extra)
