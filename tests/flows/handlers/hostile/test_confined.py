"""A try that was taken over: what it wishes for is refused by the kernel, and would be granted without confinement."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.handlers.errors import HandlerError
from tests.support import hostile, hostile_attacks
from tests.support.hostile_tries import try_of
from tests.support.rasters import bronze
from tests.support.zygotes import Zygote

Wish = Callable[[str, object], str]


@pytest.fixture
def wish(zygote: Zygote, tmp_path: Path) -> Wish:
    """What a try got, or the words of its failure."""

    def wished(what: str, where: object) -> str:
        try:
            return str(try_of("hostile.wish", {"what": what, "where": str(where)}, tmp_path)["got"])
        except HandlerError as refusal:
            return str(refusal)

    assert zygote.lives()
    return wished


def wishes(root: Path) -> list[tuple[str, object]]:
    """Other files, other processes, the network, a source that is to be kept as it came."""
    source = bronze(root, "up/a.tif")
    source.write_bytes(next(hostile.honest()).content)
    (root / "secret").write_text("canary")
    return [
        ("read", root / "secret"), ("read", "/etc/passwd"), ("read", f"/proc/{os.getpid()}/environ"),
        ("write", root / "planted"), ("write", source), ("signal", os.getpid()), ("call", "http://127.0.0.1:9/x"),
    ]  # fmt: skip


def test_kernel_refuses_a_confined_try_every_foreign_wish(wish: Wish, tmp_path: Path) -> None:
    for what, where in wishes(tmp_path):
        assert wish(what, where).startswith("PermissionError"), (what, where)
    assert not (tmp_path / "planted").exists()


def test_unconfined_try_is_granted_every_foreign_wish(
    wish: Wish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAIRN_TRY_CONFINEMENT", "off")
    for what, where in wishes(tmp_path):
        assert not wish(what, where).startswith("PermissionError"), (what, where)
    assert (tmp_path / "planted").read_text() == "was here"


def test_confined_try_can_open_no_path_of_a_zone(wish: Wish, tmp_path: Path) -> None:
    """What it may read it was handed open; what it makes it hands over. Only its own folder it opens by itself."""
    source = bronze(tmp_path, "up/a.tif")
    source.write_bytes(next(hostile.honest()).content)
    (tmp_path / "silver").mkdir()
    assert not wish("open", source).isdigit()
    assert wish("write", tmp_path / "silver" / "product").startswith("PermissionError")
    assert wish("write", "own") == "8"


@pytest.mark.parametrize("name", ["vrt-0", "overview-file-0"])
def test_a_file_opened_trustingly_reads_no_other(
    name: str, wish: Wish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's part alone: what our own reader refuses is shown to GDAL here, from the try's own folder."""
    secret = tmp_path / "elsewhere.tif"
    secret.write_bytes(next(hostile.honest()).content)
    attack = hostile.by_name(hostile_attacks.attacks(secret, "http://127.0.0.1:9/x"))[name]
    confined = wish("open a copy", attack.content.hex())
    monkeypatch.setenv("CAIRN_TRY_CONFINEMENT", "off")
    trusting = wish("open a copy", attack.content.hex())
    assert trusting.isdigit()
    assert int(trusting) > 9
    assert confined != trusting
