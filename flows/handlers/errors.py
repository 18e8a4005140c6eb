"""What can go wrong in a handler, as classes that already know whether to retry and what a partner may read."""


class HandlerError(Exception):
    """A handler could not do its work. Unknown exceptions count as this: retried, and hidden from partners."""

    code: str = "handler-failed"
    retryable: bool = True
    partner_may_read: bool = False


class InvalidInput(HandlerError):
    """The submitted data or parameters are at fault: another try cannot help; the partner can act on the message."""

    code = "invalid-input"
    retryable = False
    partner_may_read = True


class Transient(HandlerError):
    """Something outside was briefly unavailable: worth another try."""

    code = "transient"


class Outage(Transient):
    """Something of ours was away, a database, storage or a disk: no try of the work, which is begun again under it.

    Only one that outlasts all patience fails the work; then the partner is told to come again.
    """

    code = "platform-outage"


class Outlasted(Outage):
    """An outage lasted longer than the work waits: the work fails, and another try would only wait as long again."""

    retryable = False


class SourceChanged(Transient):
    """A blob was replaced or written to while a try read it: what was read so far belongs to another content."""

    code = "source-changed"
    partner_may_read = True

    def __init__(
        self, message: str = "The source changed while it was read. Leave it as it is until the request has ended."
    ) -> None:
        super().__init__(message)


class Stopped(HandlerError):
    """The run was asked to stop and the handler left early."""

    code = "stopped"
    retryable = False


class NoAsset(HandlerError):
    """The handler describes or stores a part of an asset, but its run has no asset."""

    code = "no-asset"
    retryable = False


class InvalidOutput(HandlerError):
    """The run returns more than can be kept: its workflow is at fault, not the submitted data."""

    code = "invalid-output"
    retryable = False


class PlannedHandler(HandlerError):
    """The handler is declared for authors but not written yet."""

    code = "handler-planned"
    retryable = False


class TimedOut(HandlerError):
    """The try took longer than it may."""

    code = "timeout"


class Crashed(HandlerError):
    """The try's process ended without an answer: native code crashed, or it was killed."""

    code = "handler-crashed"


class OutOfMemory(HandlerError):
    """The try needed more memory than one may take."""

    code = "out-of-memory"


class StorageForbidden(HandlerError):
    """The try asked storage for a blob or an act that it has no right to."""

    code = "storage-forbidden"
    retryable = False


class ForeignProduct(HandlerError):
    """The try named blobs as made by it that are not its run's."""

    code = "foreign-product"
    retryable = False


# What one process may tell another by its code alone.
TELLABLE: dict[str, type[HandlerError]] = {
    error.code: error
    for error in (
        InvalidInput,
        Transient,
        Outage,
        SourceChanged,
        Stopped,
        OutOfMemory,
        PlannedHandler,
        StorageForbidden,
        NoAsset,
    )
}


class Nested(HandlerError):
    """A sub-workflow failed because one of its nodes did."""

    def __init__(self, message: str, code: str, *, is_invalid: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.partner_may_read = is_invalid
        self.retryable = not is_invalid


class Broken(Exception):
    """The machinery failed, not the work: no try of ours helps, the attempt ends, and another one may go on."""
