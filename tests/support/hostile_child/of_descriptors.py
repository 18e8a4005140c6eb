"""Attempts at the flow's process: files that it is asked to store, and names that it is asked for."""

import errno
import gc
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flows.handlers.context import Context
from flows.handlers.errors import HandlerError
from flows.tries import process_child
from tests.support.hostile_child.attempts import Aims, Attempt, attempt

Opened = Callable[[Aims, Context], int]


def channel() -> process_child.Channel:
    """The line to the flow's process, which no handler is given."""
    return next(each for each in gc.get_objects() if isinstance(each, process_child.Channel))


def _ask(call: dict[str, Any], file: int | None) -> str:
    try:
        answered = channel().ask(call, file)
    except HandlerError as refusal:
        raise PermissionError(errno.EPERM, str(refusal)) from None
    if answered.descriptor is not None:
        os.close(answered.descriptor)
    return str(answered)


def _handed(act: str, opened: Opened) -> Attempt:
    """Have a file stored that the try has no right to."""

    def hand_over(aims: Aims, context: Context) -> str:
        name = f"{context.output_prefix}/{os.urandom(4).hex()}"
        call = {"zone": "silver", "act": act, "name": name}
        file = opened(aims, context)
        try:
            return _ask(call, file)
        finally:
            os.close(file)

    return hand_over


def _too_large(aims: Aims, context: Context) -> int:
    with (context.workdir / "large").open("wb") as file:
        os.ftruncate(file.fileno(), 5 * 2**20)  # one append takes four
    return os.open(context.workdir / "large", os.O_RDONLY)


FILES: dict[str, tuple[str, Opened]] = {
    "another's file, named only": ("put", lambda aims, _: os.open(aims.secret, os.O_PATH)),
    "another's file, appended": ("append", lambda aims, _: os.open(aims.secret, os.O_PATH)),
    "the flow's environment": ("put", lambda aims, _: os.open(f"/proc/{aims.flow}/environ", os.O_PATH)),
    "the own environment": ("put", lambda *_: os.open("/proc/self/environ", os.O_RDONLY)),
    "a device": ("put", lambda *_: os.open("/dev/null", os.O_RDONLY)),
    "a device without end": ("put", lambda *_: os.open("/dev/urandom", os.O_RDONLY)),
    "a folder": ("put", lambda _, context: os.open(context.workdir, os.O_RDONLY)),
    "a pipe that nobody writes": ("put", lambda *_: os.pipe()[0]),
    "memory": ("put", lambda *_: os.memfd_create("m")),
    "more than one append takes": ("append", _too_large),
}
NAMES: dict[str, Callable[[Aims, Context], dict[str, Any]]] = {
    "write another run's product": lambda *_: {"act": "put", "zone": "silver", "name": "assets/other/0-r1/a1/x"},
    "write a source": lambda *_: {"act": "put", "zone": "bronze", "name": "in/a.tif"},
    "write what is published": lambda *_: {"act": "put", "zone": "external", "name": "x"},
    "write out of the zone": lambda _, context: {
        "act": "put", "zone": "silver", "name": f"{context.output_prefix}/../../../x"
    },
    "open another's upload": lambda *_: {"act": "open", "zone": "bronze", "name": "in/other.tif"},
    "open another run's product": lambda *_: {"act": "open", "zone": "silver", "name": "assets/other/0-r1/a1/x"},
    "list all products": lambda *_: {"act": "names", "zone": "silver", "name": "assets"},
    "remove another run's products": lambda *_: {"act": "delete_below", "zone": "silver", "name": "assets/other"},
    "open what is published": lambda *_: {"act": "open", "zone": "external", "name": "published"},
    "open another's upload by way of the source": lambda *_: {
        "act": "open", "zone": "bronze", "name": "in/a.tif/../other.tif"
    },
    "list all uploads": lambda *_: {"act": "names", "zone": "bronze", "name": "in"},
    "be told where the source lies": lambda *_: {"act": "readable_path", "zone": "bronze", "name": "in/a.tif"},
    "have another's upload copied": lambda _, context: {
        "act": "copy_from", "zone": "silver", "name": f"{context.output_prefix}/copied", "source_zone": "bronze",
        "source_name": "in/other.tif",
    },
}  # fmt: skip


def _named(call: Callable[[Aims, Context], dict[str, Any]]) -> Attempt:
    """Ask for what is not the try's business, with a file of its own."""

    def ask(aims: Aims, context: Context) -> str:
        with tempfile.TemporaryFile(dir=context.workdir) as file:
            file.write(b"was here")
            file.flush()
            return _ask(call(aims, context), file.fileno())

    return ask


for _name, (_act, _opened) in FILES.items():
    attempt("descriptors", _name)(_handed(_act, _opened))
for _name, _call in NAMES.items():
    attempt("names", _name)(_named(_call))


@attempt("descriptors", "a product that is a link")
def _(aims: Aims, context: Context) -> str:
    link = Path(context.workdir) / "product"
    link.symlink_to(aims.secret)
    with link.open("rb") as file:
        return _ask({"zone": "silver", "act": "put", "name": f"{context.output_prefix}/link"}, file.fileno())
