"""How fast and how lean cloud-optimised GeoTIFFs are made, beside the tools that people use for it.

Each side is a process of its own, measured from its start to its end, in turns, on the same file, with the same
compression, resampling, bands and overviews. Ours does what its handler does: the strict check, checksum, statistics,
thumbnail and outline included. CAIRN_BENCH_SHORT=1 takes a smaller raster and fewer rounds.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from statistics import median
from typing import Any

from benchmarks._flow_runs import figure
from benchmarks._load import this_machine
from benchmarks._raster_process import NAME, SOURCE_CRS
from deployments.stack.owner import tied
from deployments.stack.state import REPOSITORY

TARGET_CRS = "EPSG:4326"
BIN = Path(sys.executable).parent
_COUNT_OVERVIEWS = """
import sys, rasterio
with rasterio.open(sys.argv[1]) as raster:
    print(len(raster.overviews(1)))
"""


@dataclass(frozen=True)
class Amount:
    """How much is measured: the raster's side, and how often."""

    pixels: int
    rounds: int


FULL = Amount(pixels=8192, rounds=5)
SHORT = Amount(pixels=2048, rounds=1)


@dataclass(frozen=True)
class ProcessCost:
    """What a process, or several one after the other, took."""

    seconds: float
    peak_mb: float

    def __add__(self, other: "ProcessCost") -> "ProcessCost":
        return ProcessCost(self.seconds + other.seconds, max(self.peak_mb, other.peak_mb))


@dataclass(frozen=True)
class Bench:
    """A folder with the source, and where the tools leave their files."""

    root: Path

    @property
    def source(self) -> Path:
        return self.root / "bronze" / NAME

    @property
    def product(self) -> Path:
        return self.root / "silver" / "bench" / "cog.tif"

    def ours(self, target: str) -> ProcessCost:
        return measured([*process("cog"), json.dumps(order(target))], self.root)

    def rio_warp_and_cogeo(self) -> ProcessCost:
        warp: list[str | Path] = [
            BIN / "rio",
            "warp",
            self.source,
            "warped.tif",
            "--dst-crs",
            TARGET_CRS,
            "--threads",
            "2",
            "--overwrite",
        ]
        return measured(warp, self.root) + self.rio_cogeo(self.root / "warped.tif", "peer.tif")

    def rio_cogeo(self, source: Path, product: str) -> ProcessCost:
        arguments: list[str | Path] = ["create", source, product, "-p", "deflate", "--overview-resampling", "nearest"]
        levels = ["--overview-level", str(self.overviews())]
        return measured([BIN / "rio", "cogeo", *arguments, *levels], self.root)

    def overviews(self) -> int:
        """How many our product has, so that its peer gets as many. In a process of its own, as everything here."""
        return int(subprocess.check_output(tied(sys.executable, "-c", _COUNT_OVERVIEWS, self.product), text=True))

    def gdalwarp(self) -> ProcessCost:
        options = {"COMPRESS": "DEFLATE", "NUM_THREADS": "2", "OVERVIEW_RESAMPLING": "NEAREST"}
        created = [word for name, value in options.items() for word in ("-co", f"{name}={value}")]
        warp = ["gdalwarp", "-q", "-overwrite", "-of", "COG", "-t_srs", TARGET_CRS, "-multi", "-wo", "NUM_THREADS=2"]
        return measured([*warp, *created, self.source, "gdalwarp.tif"], self.root)

    def tiled(self, processes: int) -> ProcessCost:
        """The tiled route, its tiles shared among so many processes that stand ready."""
        for part in self.root.glob("part-*.json"):
            part.unlink()
        shares = [order(TARGET_CRS) | {"share": share, "shares": processes} for share in range(processes)]
        tiles = together([[*process("tiles"), json.dumps(share)] for share in shares], self.root)
        return tiles + together([[*process("mosaic"), json.dumps(order(TARGET_CRS))]], self.root)


def order(target: str) -> dict[str, Any]:
    """Return our workflow's parameters for what the other tools are asked for."""
    return {"source": NAME, "target_crs": target, "resampling": "nearest", "overview_resampling": "nearest"}


def process(what: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks._raster_process", ".", what]


def run(size: Amount | None = None) -> dict[str, Any]:
    """Measure, and report in the shape of all benchmarks."""
    size = size or (SHORT if os.environ.get("CAIRN_BENCH_SHORT") else FULL)
    with tempfile.TemporaryDirectory(prefix="cairn-bench-") as folder:
        results = [*_measured(Path(folder), size)]
    return {"bench": "raster", "machine": this_machine(), "versions": _versions(), "results": results}


def _measured(folder: Path, size: Amount) -> Iterator[dict[str, Any]]:
    bench = Bench(folder / "usual")
    write_source(bench.root, size.pixels)
    yield from _reprojected(bench, size)
    yield from _direct(bench, size)
    yield from _tiled(bench, size)
    large = Bench(folder / "large")
    write_source(large.root, 2 * size.pixels)
    yield from _memory(bench, large, size)


def _reprojected(bench: Bench, size: Amount) -> Iterator[dict[str, Any]]:
    told = f"{size.pixels}² x 3 bytes from {SOURCE_CRS} to {TARGET_CRS}, start to end"
    ways: list[Callable[[], ProcessCost]] = [lambda: bench.ours(TARGET_CRS), bench.rio_warp_and_cogeo]
    if has_gdalwarp := shutil.which("gdalwarp") is not None:
        ways.append(bench.gdalwarp)
    ours, rio, *gdal = in_turns(ways, size.rounds)
    yield _slower("reproject", ours, rio, f"{told}; baseline: rio warp, then rio cogeo create", 0.75)
    if has_gdalwarp:
        yield _slower("reproject_vs_gdalwarp", ours, gdal[0], f"{told}; baseline: gdalwarp -of COG, two threads", 1.15)
    own, peer = bench.product.stat().st_size, (bench.root / "peer.tif").stat().st_size
    note = "bytes of the product; baseline: of rio cogeo's"
    yield figure("size", own, "B", baseline=peer, ratio=own / peer, n=1, note=note, at_most=1.05)
    peak, theirs = _peak(ours), _peak(rio)
    yield figure("memory", peak, "MB", baseline=theirs, ratio=None, n=size.rounds, note="peak RSS", at_most=1024)


def _direct(bench: Bench, size: Amount) -> Iterator[dict[str, Any]]:
    ways = [lambda: bench.ours(SOURCE_CRS), lambda: bench.rio_cogeo(bench.source, "direct.tif")]
    ours, rio = in_turns(ways, size.rounds)
    yield _slower("optimise", ours, rio, "no reprojection; baseline: rio cogeo create", 0.8)


def _tiled(bench: Bench, size: Amount) -> Iterator[dict[str, Any]]:
    one, two = in_turns([lambda: bench.tiled(1), lambda: bench.tiled(2)], size.rounds)
    ratio = _seconds(one) / _seconds(two)
    note = "tiles and mosaic on two processes; baseline: on one; the ratio is how many times faster"
    facts = {"baseline": _seconds(one), "ratio": ratio, "n": size.rounds, "note": note}
    yield figure("tiled_on_two", _seconds(two), "s", **facts, at_least=1.6)  # type: ignore[arg-type]


def _memory(usual: Bench, large: Bench, size: Amount) -> Iterator[dict[str, Any]]:
    """Whether four times the pixels need more memory."""
    small, four = in_turns([lambda: usual.ours(TARGET_CRS), lambda: large.ours(TARGET_CRS)], size.rounds)
    ratio = _peak(four) / _peak(small)
    note = "peak RSS at four times the pixels; baseline: at one time"
    facts = {"baseline": _peak(small), "ratio": ratio, "n": size.rounds, "note": note}
    yield figure("memory_at_four_times", _peak(four), "MB", **facts, at_most=1.2)  # type: ignore[arg-type]


def in_turns(ways: Sequence[Callable[[], ProcessCost]], rounds: int) -> list[list[ProcessCost]]:
    """What each way took, in turns, so that whatever else the machine does burdens them alike."""
    made: list[list[ProcessCost]] = [[] for _ in ways]
    for _ in range(rounds):
        for place, way in enumerate(ways):
            made[place].append(way())
    return made


def measured(command: Sequence[str | Path], folder: Path) -> ProcessCost:
    """Run a command to its end, by the wall clock and the kernel's count of its memory."""
    began = time.perf_counter()
    popen = _started(command, folder)
    assert popen.stdin is not None  # noqa: S101 - `_started` pipes it
    popen.stdin.close()
    return _ended(popen, began)


def together(commands: Sequence[Sequence[str | Path]], folder: Path) -> ProcessCost:
    """Run commands at once, from when all stand ready until the last has ended."""
    started = [_started(command, folder) for command in commands]
    for popen in started:
        assert popen.stdout is not None  # noqa: S101 - `_started` pipes it
        popen.stdout.readline()
    began = time.perf_counter()
    for popen in started:
        assert popen.stdin is not None  # noqa: S101 - `_started` pipes it
        popen.stdin.close()
    ends = [_ended(popen, began) for popen in started]
    return ProcessCost(max(end.seconds for end in ends), max(end.peak_mb for end in ends))


def _started(command: Sequence[str | Path], folder: Path) -> "subprocess.Popen[str]":
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    pipe = subprocess.PIPE
    return subprocess.Popen(tied(*command), cwd=folder, env=environment, stdin=pipe, stdout=pipe, text=True)


def _ended(popen: "subprocess.Popen[str]", began: float) -> ProcessCost:
    _, status, usage = os.wait4(popen.pid, 0)
    seconds = time.perf_counter() - began
    popen.returncode = os.waitstatus_to_exitcode(status)
    if popen.stdout:
        popen.stdout.close()
    if popen.returncode:
        raise RuntimeError(f"What is measured failed: {popen.args!r}")
    return ProcessCost(seconds, usage.ru_maxrss / 1024)


def write_source(root: Path, size: int) -> None:
    """Write the source by another process, since the kernel counts our memory as our children's too."""
    root.mkdir()
    measured([*process("source"), json.dumps({"size": size})], root)


def _slower(
    name: str, own: Sequence[ProcessCost], peer: Sequence[ProcessCost], note: str, target: float
) -> dict[str, Any]:
    ratio = _seconds(own) / _seconds(peer)
    facts = {"baseline": _seconds(peer), "ratio": ratio, "n": len(own), "note": note}
    return figure(name, _seconds(own), "s", **facts, at_most=target)  # type: ignore[arg-type]


def _seconds(runs: Sequence[ProcessCost]) -> float:
    return median(ran.seconds for ran in runs)


def _peak(runs: Sequence[ProcessCost]) -> float:
    return median(ran.peak_mb for ran in runs)


def _versions() -> dict[str, str]:
    import rasterio

    names = ("rasterio", "rio-cogeo", "numpy")
    return {"python": python_version(), "gdal": rasterio.__gdal_version__, **{name: version(name) for name in names}}


if __name__ == "__main__":
    json.dump(run(), sys.stdout, indent=2)
    sys.stdout.write("\n")
