"""A second host: a network namespace of this machine, joined to it by a cable of its own. Needs root, as `ip` does."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class SecondHost:
    """The namespace, and the addresses at both ends of the cable."""

    name: str
    first: str
    second: str

    def command(self, script: str) -> list[str]:
        """What runs a shell's script there."""
        return ["ip", "netns", "exec", self.name, "sh", "-c", script]

    def run(self, script: str, environment: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.command(script), env=environment, capture_output=True, text=True, timeout=60, check=False
        )


@contextmanager
def second_host() -> Iterator[SecondHost]:
    """A host that reaches this one, and nothing else, for as long as the block lasts."""
    number = os.getpid() % 16_000
    name, here, there = f"cairn-host-{number}", f"cairn{number}a", f"cairn{number}b"
    block = f"10.{200 + number // 64 // 250}.{number // 64 % 250}"
    host = SecondHost(name, f"{block}.{number % 64 * 4 + 1}", f"{block}.{number % 64 * 4 + 2}")
    _ip("netns", "add", name)
    try:
        _ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
        _ip("addr", "add", f"{host.first}/30", "dev", here)
        _ip("link", "set", here, "up")
        _ip("-n", name, "addr", "add", f"{host.second}/30", "dev", there)
        _ip("-n", name, "link", "set", there, "up")
        _ip("-n", name, "link", "set", "lo", "up")
        yield host
    finally:
        _ip("netns", "del", name)  # the cable goes with its end


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
