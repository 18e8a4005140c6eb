"""Which sources a submission may name: a blob, or an address of a host that operators trust. Pure: opens nothing.

Whoever fetches an address judges it once more, and by what its name resolves to.
"""

import re
from dataclasses import dataclass, field

from domain.rules.addresses import AddressPolicy, RefusedAddress, Target, parse
from flows.errors import InvalidInput
from flows.storage.protocol import checked_name

_ADDRESS = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True)
class SourcePolicy:
    """The hosts whose files may be fetched; none unless operators name some."""

    hosts: frozenset[str] = frozenset()
    addresses: AddressPolicy = field(default_factory=AddressPolicy)


class RefusedSource(ValueError):
    """Nothing is read from there. The message says why, for whoever named it."""


def is_address(source: str) -> bool:
    """True for what has a scheme; a blob's name has none."""
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
