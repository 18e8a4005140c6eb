"""The contracts of who imports what have no holes: a module that is added is held to each that its room is under."""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
CONTRACTS: list[dict[str, Any]] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
]
# What a contract is about, by something that only it forbids; and the rooms whose modules are all held to it.
HELD: Mapping[str, tuple[str, ...]] = {
    "prefect_redis": ("flows", "domain", "gateway"),
    "asyncio": ("flows.compiler", "domain.rules", "domain.contracts"),
    "asyncpg": ("flows", "domain", "gateway"),
    "osgeo": ("flows", "domain", "gateway"),
    "starlette": ("flows", "domain"),
}
# Of a room that is forbidden by names: what others may know of it.
KNOWN: Mapping[tuple[str, str], set[str]] = {
    ("gateway", "domain"): {"contracts", "rules", "shared"},
    ("domain", "flows"): {"compiler", "handlers", "memory", "pools", "storage"},
    ("flows", "domain"): {"contracts", "rules", "shared"},
}


def contract(forbidden: str) -> dict[str, Any]:
    [found] = [each for each in CONTRACTS if forbidden in each["forbidden_modules"]]
    return found


def is_within(module: str, rooms: Iterable[str]) -> bool:
    return any(module == room or module.startswith(f"{room}.") for room in rooms)


def modules(room: str) -> set[str]:
    """Every module of a room, as its files say."""
    folder = REPOSITORY / room.replace(".", "/")
    names = (file.relative_to(REPOSITORY).with_suffix("").parts for file in folder.rglob("*.py"))
    return {".".join(name[:-1] if name[-1] == "__init__" else name) for name in names}


def parts(room: str) -> set[str]:
    """The names directly below a room."""
    return {module.split(".")[1] for module in modules(room) if "." in module}


@pytest.mark.parametrize("forbidden", HELD)
def test_every_module_of_a_room_is_held_to_its_contracts(forbidden: str) -> None:
    sources = contract(forbidden)["source_modules"]
    every = set[str]().union(*(modules(room) for room in HELD[forbidden]))
    assert len(every) > 20
    assert sorted(module for module in every if not is_within(module, sources)) == []


@pytest.mark.parametrize(("reader", "room"), KNOWN)
def test_contracts_forbid_everything_but_what_is_listed_and_used(reader: str, room: str) -> None:
    known = KNOWN[reader, room]
    [told] = [
        {name.removeprefix(f"{room}.") for name in each["forbidden_modules"] if name.startswith(f"{room}.")}
        for each in CONTRACTS
        if reader in each["source_modules"] and f"{room}.settings" in each["forbidden_modules"]
    ]
    assert told | known == parts(room)
    assert told & known == set()
    text = "".join(file.read_text() for file in (REPOSITORY / reader).rglob("*.py"))
    unused = [name for name in known if f"{room}.{name}" not in text and f"from {room} import {name}" not in text]
    assert unused == []


def test_module_outside_of_every_contract_is_found() -> None:
    sources = ["domain.api", "domain.app"]
    assert [each for each in ("domain.api.items", "domain.apiary", "domain.app") if not is_within(each, sources)] == [
        "domain.apiary"
    ]
    assert {"domain.rules.sources", "domain.rules", "domain"} <= modules("domain")
