"""Reading a blob over a line: the same bytes, the same failures, and an end when either side ends."""

import random
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread

import pytest

from flows.handlers.errors import HandlerError, InvalidInput, Stopped, Transient
from flows.storage import lines
from flows.storage.lines import LineReader, serve
from flows.storage.readers import RangeReader

CONTENT = random.Random(1).randbytes(10_000)  # noqa: S311 - to be the same each time


@dataclass
class Blob:
    """A store of one blob, which may fail."""

    fault: Exception | None = None
    longest: int = 0

    def read_range(self, name: str, start: int, length: int) -> bytes:
        if self.fault is not None:
            raise self.fault
        self.longest = max(self.longest, length)
        return CONTENT[start : start + length]


@contextmanager
def reader_of(blob: Blob, check: Callable[[], None] = lambda: None) -> Iterator[LineReader]:
    ours, theirs = socket.socketpair()
    thread = Thread(target=serve, args=(ours, RangeReader(blob, "a/b", len(CONTENT)), check))
    thread.start()
    with LineReader(theirs, len(CONTENT)) as reader:
        yield reader
    thread.join(60)
    assert not thread.is_alive()


def test_reader_over_a_line_returns_the_blobs_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST_ANSWER", 1000)
    blob, generator = Blob(), random.Random(2)  # noqa: S311 - likewise
    with reader_of(blob) as reader:
        for _ in range(200):
            start, length = generator.randrange(10_500), generator.randrange(4000)
            assert reader.read(start, length) == CONTENT[start : start + length]
    assert blob.longest == 1000


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        (InvalidInput("There is no blob."), InvalidInput, "There is no blob."),
        (Transient("The account did not answer."), Transient, "The account did not answer."),
        (OSError("https://a/b?sig=secret"), HandlerError, "OSError"),
    ],
)
def test_failure_over_a_line_keeps_its_type_and_the_line_goes_on(
    fault: Exception, error: type[HandlerError], words: str
) -> None:
    blob = Blob(fault)
    with reader_of(blob) as reader:
        with pytest.raises(error) as told:
            reader.read(0, 10)
        assert str(told.value) == words
        blob.fault = None
        assert reader.read(0, 10) == CONTENT[:10]


def test_stopped_run_reads_nothing_more_over_a_line() -> None:
    def check() -> None:
        raise Stopped("The run was asked to stop.")

    blob = Blob()
    with reader_of(blob, check) as reader, pytest.raises(Stopped):
        reader.read(0, 10)
    assert blob.longest == 0


def test_cut_line_is_retryable() -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    with LineReader(theirs, 10) as reader, pytest.raises(Transient):
        reader.read(0, 10)


def test_truncated_question_ends_the_line() -> None:
    with reader_of(Blob()) as reader:
        reader.line.sendall(b"half")
