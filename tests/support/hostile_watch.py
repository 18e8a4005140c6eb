"""Run under strace and without a network: takes files through tries one by one, then does what must be caught.

Prints one line of JSON: the pids that are not a try's, threads' too, the verdicts, and where the controls reached for.
"""

import json
import os
import sys
import threading
from pathlib import Path

from flows.handlers.errors import HandlerError
from flows.tries.fork_client import ADDRESS
from tests.support import hostile, hostile_attacks, hostile_probes
from tests.support.hostile import Sample
from tests.support.hostile_tries import fate_of, try_of
from tests.support.rasters import bronze
from tests.support.zygotes import Zygote

URL = "http://127.0.0.1:9/x"


def watched(root: Path, mutants: int) -> list[Sample]:
    """All attacks but bombs, which reach for nothing, some honest files, and mutants."""
    attacks = [attack for attack in hostile_attacks.attacks(secret_in(root), URL) if not attack.name.startswith("bomb")]
    return [*list(hostile.honest())[::4], *attacks, *hostile.mutants(max(mutants, len(hostile.DAMAGES)))]


def secret_in(root: Path) -> Path:
    """Somebody else's blob, which is a raster, so that it could be read as one."""
    return root / "bronze/other/secret.tif"


def main(root: Path, mutants: int) -> None:
    secret_in(root).parent.mkdir(parents=True)
    secret_in(root).write_bytes(next(hostile.honest()).content)
    zygote = Zygote("tests.support.hostile_probes", "gdal")
    os.environ[ADDRESS] = zygote.name
    hostile_probes.declare()
    ours = {os.getpid(), zygote.process.pid}
    _note_threads(ours)
    fates = []
    for sample in watched(root, mutants):
        fates.append(fate_of(sample, "hostile.validate", root))
        if fates[-1].verdict == "taken":
            fates.append(fate_of(sample, "hostile.create_cog", root))
    told = {
        "ours": sorted(ours),
        "lives": zygote.lives(),
        "fates": [vars(fate) for fate in fates],
        "controls": controls(root),
    }
    zygote.end()
    sys.stdout.write(json.dumps(told) + "\n")


def _note_threads(ids: set[int]) -> None:
    """Add each thread of this process that begins from now on: strace tells them apart."""

    def note(*_: object) -> None:
        ids.add(threading.get_native_id())
        sys.setprofile(None)

    threading.setprofile(note)


def controls(root: Path) -> dict[str, str]:
    """What would be seen if a file had its way, by a process that opens it trustingly."""
    references = hostile.by_name(hostile_attacks.attacks(secret_in(root), URL))
    got = {}
    for name in ("vrt-0", "overview-file-0", "vrt-1"):
        path = bronze(root, f"control/{name}.tif")
        path.write_bytes(references[name].content)
        got[name] = wished("open", str(path), root)
    return {**got, "read": wished("read", "/etc/passwd", root), "call": wished("call", URL, root)}


def wished(what: str, where: str, root: Path) -> str:
    try:
        return str(try_of("hostile.wish", {"what": what, "where": where}, root)["got"])
    except HandlerError as error:
        return f"{error.code}: {error}"


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
