"""Clients of doors that forward hold little of an answer whose reader is slow, and keep no cookies."""

import asyncio
import contextlib
import socket
import threading
import tracemalloc
from collections.abc import Callable, Iterator

import httpx
import pytest
import uvloop

from gateway.forwarding.clients import forwarding_client

ANSWER_BYTES = 48 * 2**20
MOST_HELD_BYTES = 1_000_000
HEAD = f"HTTP/1.1 200 OK\r\ncontent-length: {ANSWER_BYTES}\r\nset-cookie: session=1\r\n\r\n".encode()


@pytest.fixture(scope="module")
def fast_service() -> Iterator[str]:
    """The address of what answers as much as is taken, as fast as it can."""
    answer = HEAD + bytes(ANSWER_BYTES)

    def answer_each() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection, contextlib.suppress(OSError):
                    connection.recv(65536)
                    connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=answer_each)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def held_for_slow_reader(make_client: Callable[[str], httpx.AsyncClient], address: str) -> int:
    """The most bytes that the client held while its reader took a third of the answer, now and then a piece."""

    async def read_slowly() -> int:
        most = 0
        async with make_client(address) as client, client.stream("GET", "/") as answer:
            before, _ = tracemalloc.get_traced_memory()
            taken = 0
            async for piece in answer.aiter_raw():
                taken += len(piece)
                most = max(most, tracemalloc.get_traced_memory()[0] - before)
                await asyncio.sleep(0.001)
                if taken > ANSWER_BYTES / 3:
                    return most
        return most

    tracemalloc.start()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as uvicorn has it
            return runner.run(read_slowly())
    finally:
        tracemalloc.stop()


def test_client_holds_little_of_an_answer_that_is_read_slowly(fast_service: str) -> None:
    assert held_for_slow_reader(forwarding_client, fast_service) < MOST_HELD_BYTES


def test_usual_client_would_hold_much_of_it(fast_service: str) -> None:
    """The control: without a small window of the kernel's, megabytes lie in the process for each slow reader."""
    usual = held_for_slow_reader(lambda address: httpx.AsyncClient(base_url=address), fast_service)
    assert usual > MOST_HELD_BYTES


async def test_client_keeps_no_cookie(fast_service: str) -> None:
    async with forwarding_client(fast_service) as client, client.stream("GET", "/") as answer:
        assert answer.headers["set-cookie"] == "session=1"
        assert not client.cookies
