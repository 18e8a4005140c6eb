"""Values that are too large to travel: kept in run storage by their content, read when somebody looks into them.

Which values were kept is said beside them, never by a mark inside: partner data must not pass for a reference. The
name of a kept value is made of its content, which is held against it whenever it is read: of a power cut or a broken
disk a run hears as of lost work, which is done again, and never as of a result.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from domain.rules.outcomes import RESULT_BYTES
from flows.handlers.errors import Broken, InvalidInput
from flows.storage import SmallStore
from flows.storage.threads import in_storage_thread

TRAVELS_BYTES = 16_000


class DamagedValue(Broken):
    """A kept value is not what was kept. An attempt that begins after this does the work again that made it."""

    code = "kept-value-damaged"


@dataclass(frozen=True)
class KeptValues:
    """The kept values of one run."""

    store: SmallStore
    memory: str

    def dump(self, value: Any) -> dict[str, Any]:
        """Make of the value what travels: `{"value": …}`, or `{"stored": name}` where it is kept for its size."""
        if isinstance(value, Stored):
            return {"stored": value.name}
        text = to_json(value)
        if len(text) <= TRAVELS_BYTES:
            return {"value": value}
        content = text.encode()
        name = f"{self.memory}/values/{_fingerprint(content)}.json"
        if self.store.size_bytes(name) != len(content) or self.store.read_bytes(name) != content:
            self.store.write_bytes(name, content)
        return {"stored": name}

    def load(self, dumped: Mapping[str, Any]) -> Any:
        """Make the value again of what travelled. A kept mapping is read only if somebody looks into it."""
        return Stored(self.store, dumped["stored"]) if "stored" in dumped else dumped["value"]


@dataclass(frozen=True, eq=False)
class Stored(Mapping[str, Any]):
    """A kept mapping."""

    store: SmallStore
    name: str

    @cached_property
    def content(self) -> dict[str, Any]:
        """The content, read once for all who are given this mapping: items of a fan-out may be thousands."""
        return self.read()

    def read(self) -> dict[str, Any]:
        """Read the content for somebody who looks once; nothing of it stays here."""
        try:
            content = self.store.read_bytes(self.name)
        except InvalidInput:
            raise DamagedValue(f"The kept value {self.name} is gone. The work that made it is done again.") from None
        if not self.name.endswith(f"/{_fingerprint(content)}.json"):
            raise DamagedValue(f"The kept value {self.name} is not what was kept. The work that made it is done again.")
        value: dict[str, Any] = json.loads(content)
        return value

    @property
    def is_read(self) -> bool:
        """Whether a look into it asks the store nothing any more."""
        return "content" in vars(self)

    def __getitem__(self, key: str) -> Any:
        return self.content[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.content)

    def __len__(self) -> int:
        return len(self.content)


def result_fault(outputs: Mapping[str, Any]) -> str | None:
    """Why these are too much for a run to return, or None. What it returns is kept whole by the domain, as partners
    and later runs read it.
    """
    sizes = {name: len(to_json(value)) for name, value in outputs.items()}
    if sum(sizes.values()) <= RESULT_BYTES:
        return None
    largest = max(sizes, key=lambda name: sizes[name])
    return (
        f"The outputs have {sum(sizes.values()):,} bytes of JSON, {largest!r} alone {sizes[largest]:,}; "
        f"a run returns at most {RESULT_BYTES:,}. Write the data to a zone and return where it lies."
    )


def lies_in_storage(value: Any) -> bool:
    """Whether a look at all of it would ask the store."""
    if isinstance(value, Stored):
        return not value.is_read
    if isinstance(value, Mapping):
        return any(map(lies_in_storage, value.values()))
    return isinstance(value, list | tuple) and any(map(lies_in_storage, value))


async def made_plain(value: Any) -> Any:
    """`plain` for an event loop: what lies in storage is read in a thread."""
    return await in_storage_thread(plain, value) if lies_in_storage(value) else plain(value)


def plain(value: Any) -> Any:
    """The value with every kept mapping in it read."""
    if isinstance(value, Stored):
        return value.content
    if isinstance(value, Mapping):
        return {key: plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain(member) for member in value]
    return value


def to_json(value: Any) -> str:
    """One text for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=_read)


def _fingerprint(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:40]


def _read(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON")
