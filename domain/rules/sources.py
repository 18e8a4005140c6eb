"""Which sources a submission may name: a blob, or an address of a host that operators trust. Pure: opens nothing.

Whoever fetches an address judges it once more, and by what its name resolves to.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations

from domain.contracts.names import is_inside
from domain.rules.addresses import AddressPolicy, RefusedAddress, Target, parse
from domain.rules.places import QUARANTINE
from flows.handlers.errors import InvalidInput
from flows.storage.protocol import checked_name

# Folders of bronze that runs write: what lies there is one platform's, and no name in it tells whose.
INTERNAL = (QUARANTINE,)
_ADDRESS = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True)
class SourcePolicy:
    """The hosts whose files may be fetched, and the folders that blobs may lie in. What is not named is refused."""

    hosts: frozenset[str] = frozenset()
    addresses: AddressPolicy = field(default_factory=AddressPolicy)
    prefixes: tuple[str, ...] = ()


class RefusedSource(ValueError):
    """The source may not be read. The message tells its sender why."""


def is_address(source: str) -> bool:
    """Whether the source has a scheme; a blob's name has none."""
    return _ADDRESS.match(source) is not None


def check(source: str, policy: SourcePolicy) -> None:
    """Refuse everything but the name of a blob and an allowed address: paths, GDAL's names, other schemes."""
    if is_address(source):
        target_of(source, policy)
        return
    try:
        checked_name(source)
    except InvalidInput as fault:
        raise RefusedSource(str(fault)) from None
    _refuse_foreign(source, policy.prefixes)


def _refuse_foreign(name: str, prefixes: tuple[str, ...]) -> None:
    """Refuse names outside of the platform's folders, without looking whether such a blob exists."""
    if not prefixes:
        raise RefusedSource("This platform has no folder that it may submit from. Its operators register one.")
    if not any(is_inside(name, prefix.rstrip("/")) for prefix in prefixes):
        allowed = " or ".join(repr(prefix) for prefix in prefixes)
        raise RefusedSource(f"Sources of this platform begin with {allowed}.")
    if name.casefold().startswith(INTERNAL):
        raise RefusedSource(f"Nothing below {INTERNAL[0]!r} can be submitted. Name the file as it was uploaded.")


def shared_folders(prefixes: Mapping[str, Sequence[str]]) -> dict[tuple[str, str], str]:
    """Return each pair of platforms that may submit from a common folder, with that folder."""
    folders = [(platform, prefix.rstrip("/") + "/") for platform in sorted(prefixes) for prefix in prefixes[platform]]
    shared: dict[tuple[str, str], str] = {}
    for (one, outer), (other, inner) in permutations(folders, 2):
        if one != other and inner.startswith(outer):
            shared.setdefault((min(one, other), max(one, other)), inner)
    return shared


def target_of(url: str, policy: SourcePolicy) -> Target:
    """The address in the parts that a connection is made of, if its host is one of those that may be asked."""
    if not policy.hosts:
        raise RefusedSource("Sources are named as container/path here; addresses are not fetched.")
    try:
        target = parse(url, policy.addresses)
    except RefusedAddress as fault:
        raise RefusedSource(f"The source's address is refused. {fault}") from None
    if target.host not in policy.hosts:
        raise RefusedSource(f"{target.host} is not one of the hosts that sources are fetched from.")
    return target
