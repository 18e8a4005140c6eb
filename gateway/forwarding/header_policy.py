"""Which headers pass the three doors that forward, both ways: one law and a table. Pure; knows no HTTP client.

Headers are bytes. Read as text and written again, those that are not ASCII would be refused by one of the libraries.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

Headers = list[tuple[bytes, bytes]]

HOP_BY_HOP: Final = frozenset(
    {
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te",
        b"trailer", b"trailers", b"transfer-encoding", b"upgrade",
    }
)  # fmt: skip
# Only parts of the platform may tell each other these: from outside they would be claims, to the outside they leak.
OURS: Final = frozenset({b"forwarded", b"via", b"x-platform-id", b"x-real-ip"})
OUR_FAMILIES: Final = (b"x-internal-", b"x-forwarded-")
# Said anew: of a request by the client that sends it on, of an answer by our own server.
NEVER_ASKED: Final = HOP_BY_HOP | OURS | {b"content-length", b"expect"}
NEVER_ANSWERED: Final = HOP_BY_HOP | OURS | {b"date", b"server"}
# Said where the caller says nothing. Left alone, the client would ask for encodings that the caller may not understand.
UNLESS_SAID: Final = ((b"accept-encoding", b"identity"), (b"user-agent", b"cairn-gateway"))


@dataclass(frozen=True)
class Passage:
    """What passes a door in one direction: either the named headers and no others, or all others."""

    names: frozenset[bytes]
    families: tuple[bytes, ...] = ()
    """How more names begin."""
    named_pass: bool = True

    def passed(self, headers: Iterable[tuple[bytes, bytes]], never: frozenset[bytes]) -> Headers:
        """What passes, names in lower case. What `Connection` lists belongs to that connection."""
        given = [(name.lower(), value) for name, value in headers]
        if listed := [value for name, value in given if name == b"connection"]:
            never = never.union(map(bytes.strip, b",".join(listed).lower().split(b",")))
        return [
            (name, value)
            for name, value in given
            if (name in self.names or name.startswith(self.families)) is self.named_pass
            and name not in never
            and not name.startswith(OUR_FAMILIES)
        ]


def none_but(*names: bytes, families: tuple[bytes, ...] = ()) -> Passage:
    """A direction in which nothing else passes."""
    return Passage(frozenset(names), families)


def all_but(*names: bytes) -> Passage:
    """A direction in which everything else passes."""
    return Passage(frozenset(names), named_pass=False)


@dataclass(frozen=True)
class HeaderPolicy:
    """One door: what passes to the service behind it, and what passes back."""

    asked: Passage
    answered: Passage

    def to_service(self, headers: Iterable[tuple[bytes, bytes]], added: Headers) -> Headers:
        """What the service is told: of the caller's headers those that pass, unless we say the same ourselves."""
        said = {name for name, _ in added}
        passed = [header for header in self.asked.passed(headers, NEVER_ASKED) if header[0] not in said]
        said.update(name for name, _ in passed)
        return [*passed, *(header for header in UNLESS_SAID if header[0] not in said), *added]

    def to_caller(self, headers: Iterable[tuple[bytes, bytes]]) -> Headers:
        """What the caller is told of the answer."""
        return self.answered.passed(headers, NEVER_ANSWERED)


# Tiles, features and STAC: a read is told by these few. `cairn-` is for what HTTP has no name for.
SERVING: Final = HeaderPolicy(
    asked=none_but(
        b"accept", b"accept-encoding", b"authorization", b"content-type", b"if-none-match", b"if-range", b"range",
        b"x-api-key",
    ),
    answered=none_but(
        b"accept-ranges", b"allow", b"cache-control", b"content-bbox", b"content-crs", b"content-disposition",
        b"content-encoding", b"content-length", b"content-range", b"content-type", b"etag", b"link", b"location",
        b"retry-after", b"vary", b"www-authenticate", b"x-content-type-options",
        families=(b"cairn-",),
    ),
)  # fmt: skip
# Pages of the domain under our origin. It knows who is signed in by its own cookie; a credential of ours is none there.
CONSOLE: Final = HeaderPolicy(asked=all_but(b"authorization", b"x-api-key"), answered=all_but())
# An operator's internal service. It learns nothing of who asks, and tells nothing of the inside.
INTERNAL: Final = HeaderPolicy(
    asked=all_but(b"authorization", b"cookie", b"host", b"x-api-key"),
    answered=all_but(
        b"authorization", b"cookie", b"location", b"set-cookie", b"www-authenticate", b"x-api-key", b"x-powered-by",
    ),
)  # fmt: skip
