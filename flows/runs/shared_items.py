"""The items of a fan-out that several processes do, in run storage: who has room takes the next chunk.

A chunk is taken by whoever first writes a blob of its name, which the store allows once; who took it stands there.
Its lease is the sign of life of that process (`child_flow_runs.liveness`): where its run gives it up, it offers again
what was not finished. Knows nothing of Prefect. All of it waits for the store.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from flows.compiler import Item
from flows.compiler.chunks import chunk_number, chunk_sizes, free, offers
from flows.memory.large_values import to_json
from flows.storage import CommonStore


@dataclass(frozen=True)
class SharedItems:
    """One fan-out's items, in a folder of their own."""

    store: CommonStore
    folder: str

    def put(self, items: Sequence[Item], takers: int) -> list[list[int]]:
        """Offer the items, in chunks for so many takers; returns the positions of each chunk's items' indices."""
        content, places, chunks, start = bytearray(), list[tuple[int, int]](), list[list[int]](), 0
        for size in chunk_sizes(len(items), takers):
            part = items[start : start + size]
            lines = "".join(to_json([item.index, item.key, item.params]) + "\n" for item in part).encode()
            places.append((len(content), len(lines)))
            chunks.append([item.index for item in part])
            content += lines
            start += size
        self.store.write_bytes(f"{self.folder}/items.jsonl", bytes(content))
        self.store.write_bytes(f"{self.folder}/chunks.json", to_json(places).encode())
        return chunks

    @cached_property
    def _places(self) -> list[tuple[int, int]]:
        """Where each chunk's items lie among all of them. Read once: they stay as they were cut."""
        return [(start, length) for start, length in json.loads(self.store.read_bytes(f"{self.folder}/chunks.json"))]

    def take(self, who: str) -> tuple[str, list[Item]] | None:
        """Take the next chunk that nobody has; None where there is none now."""
        taken = self._names("taken")
        for again in (False, True):
            offered = self._names("again") if again else ()
            for name in free(0 if again else len(self._places), offered, taken):
                if self.store.write_new(f"{self.folder}/taken/{name}", who.encode()):
                    return name, self._items(name)
        return None

    def taken_by(self, who: str) -> list[str]:
        """The chunks that were taken by whom this text names, or who begins with it."""
        return [
            name
            for name in sorted(self._names("taken"))
            if self.store.read_bytes(f"{self.folder}/taken/{name}").decode().startswith(who)
        ]

    def offer_again(self, owned: Sequence[str], lacking: Collection[int]) -> list[str]:
        """Offer those of these chunks again whose numbers are among those that lack something. For their run only."""
        names = offers(owned, lacking, self._names("again"))
        for name in names:
            self.store.write_bytes(f"{self.folder}/again/{name}", b"")
        return names

    def is_only_of(self, worker: str, who: str, is_over: Callable[[str], bool]) -> bool:
        """Whether whom this names is the only one of its worker that takes items here: a second would win nothing.

        Another one that is over counts no more.
        """
        short = hashlib.sha256(worker.encode()).hexdigest()[:16]
        number = 0
        while not self.store.write_new(name := f"{self.folder}/workers/{short}.{number}", who.encode()):
            if not is_over(self.store.read_bytes(name).decode()):
                return False
            number += 1
        return True

    def _items(self, name: str) -> list[Item]:
        start, length = self._places[chunk_number(name)]
        lines = self.store.read_range(f"{self.folder}/items.jsonl", start, length).splitlines()
        return [Item(*json.loads(line)) for line in lines]

    def _names(self, kind: str) -> set[str]:
        return {name.rpartition("/")[2] for name in self.store.names(f"{self.folder}/{kind}")}
