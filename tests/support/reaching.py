"""What a taken-over try would reach for: blobs that are another's, by path and by asking, and anybody by a socket."""

import errno
import os
import socket
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from flows.handlers.context import Context
from flows.storage import ZONES

Attempt = Callable[[], object]
OTHERS = {
    "bronze": ("uploads/other/b.bin", "quarantine/x/c.bin"),
    "external": ("other/data.bin",),
    "silver": ("assets/other/0-r1/a1/cog.tif", "assets/asset/0-r2/a1/cog.tif"),
    "runs": ("runs/other/m1/checkpoint.json", "assets/other/0-r1/a1/parts/0.tif"),
}
ACTS: dict[str, Callable[[Any, str], object]] = {
    "read": lambda store, name: store.read_bytes(name),
    "read a part of": lambda store, name: store.read_range(name, 0, 4),
    "go through": lambda store, name: list(store.chunks(name)),
    "measure": lambda store, name: store.size_bytes(name),
    "overwrite": lambda store, name: store.write_bytes(name, b"mine"),
    "append to": lambda store, name: store.append(name, b"mine"),
    "delete": lambda store, name: store.delete(name),
    "list": lambda store, name: store.names(name.rpartition("/")[0]),
    "clear": lambda store, name: store.delete_below(name.rpartition("/")[0]),
}


def reach(own: str, around: dict[str, Any], context: Context) -> dict[str, str]:
    """What came of each attempt: the name of its error, or `done`. `around` says what there is to be reached."""
    bronze, silver = context.storage.bronze, context.storage.silver
    attempts: dict[str, Attempt] = {
        "own: read the source": partial(bronze.read_bytes, own),
        "own: read what the run has made": partial(silver.read_bytes, around["made"]),
        "own: write a product": partial(silver.write_bytes, context.output_name("new"), b"new"),
        "own: copy the source": partial(silver.copy_from, context.output_name("copy"), bronze, own),
    }
    attempts |= dict(_by_asking(context))
    if around["folder"]:
        attempts |= dict(_by_path(Path(around["folder"]), context))
    attempts |= dict(_by_socket(around["port"]))
    return {what: _outcome(attempt) for what, attempt in attempts.items()}


def _by_asking(context: Context) -> Iterator[tuple[str, Attempt]]:
    for zone, names in OTHERS.items():
        store = getattr(context.storage, zone)
        for name in names:
            for what, act in ACTS.items():
                yield f"{what} {zone}/{name}", partial(act, store, name)
            stolen = context.output_name(f"stolen-{zone}")
            yield f"copy {zone}/{name}", partial(context.storage.silver.copy_from, stolen, store, name)


def _by_path(zones: Path, context: Context) -> Iterator[tuple[str, Attempt]]:
    for zone in ZONES:
        folder = zones / zone
        yield f"list the folder {zone}", partial(os.scandir, folder)
        yield f"plant a file in {zone}", partial((folder / "planted").write_bytes, b"mine")
        yield f"plant a link in {zone}", partial((folder / "link").symlink_to, "/etc/passwd")
        yield f"make a folder in {zone}", (folder / "folder").mkdir
        for name in OTHERS[zone]:
            path = folder / name
            yield f"open {path}", path.read_bytes
            yield f"open for writing {path}", partial(os.open, path, os.O_RDWR)
            yield f"remove {path}", path.unlink
            yield f"link {path}", partial(os.link, path, context.workdir / f"{zone}-linked")
            yield f"move {path}", partial(path.rename, context.workdir / "moved")


def _by_socket(port: int) -> Iterator[tuple[str, Attempt]]:
    places: dict[str, tuple[int, int, Any]] = {
        "the listener": (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port)),
        "a datagram": (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", port)),
        "IPv6": (socket.AF_INET6, socket.SOCK_DGRAM, ("::1", port)),
        "the metadata service": (socket.AF_INET, socket.SOCK_DGRAM, ("169.254.169.254", 80)),
        "the kernel's routes": (socket.AF_NETLINK, socket.SOCK_RAW, (0, 0)),
    }
    for what, place in places.items():
        yield f"call {what}", partial(_call, *place)


def _call(family: int, kind: int, address: Any) -> None:
    with socket.socket(family, kind) as line:
        line.settimeout(2)
        line.connect(address)


def _outcome(attempt: Attempt) -> str:
    try:
        attempt()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, type(error).__name__)
    except Exception as error:  # noqa: BLE001 - the test tells which refusals are right
        return type(error).__name__
    return "done"
