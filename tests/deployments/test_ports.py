"""Ports: free ones, and never the same for two stacks that start in the same moment."""

import socket

import pytest

from deployments.stack import ports
from deployments.stack.ports import NoFreePort, PortClaims, any_port


def test_a_claimed_port_is_not_given_to_another_stack() -> None:
    wanted = any_port()
    with PortClaims() as mine, PortClaims() as other:
        first = mine.claim(wanted)
        assert other.claim(first) != first


def test_port_claim_ends_with_its_block() -> None:
    wanted = any_port()
    with PortClaims() as mine:
        claimed = mine.claim(wanted)
    with PortClaims() as other:
        assert other.claim(claimed) == claimed


def test_a_port_that_a_program_listens_on_is_passed_over() -> None:
    with socket.socket() as program, PortClaims() as claims:
        program.bind(("127.0.0.1", 0))
        program.listen()
        taken = program.getsockname()[1]
        assert claims.claim(taken) > taken


def test_claim_without_a_free_port_is_refused_with_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    with PortClaims() as mine, PortClaims() as other:
        claimed = mine.claim(any_port())
        monkeypatch.setattr(ports, "SEARCH", 1)
        with pytest.raises(NoFreePort, match=f"between {claimed} and {claimed}"):
            other.claim(claimed)


def test_any_port_never_gives_a_port_twice() -> None:
    """Not to this process again, nor to a stack: its server may need a minute to listen."""
    given = [any_port() for _ in range(20)]
    assert len(set(given)) == 20
    with PortClaims() as stack:
        assert stack.claim(given[0]) not in given
