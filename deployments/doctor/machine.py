"""Whether this machine has what the embedded stack needs. Standard library only, so that it can say what is missing."""

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from deployments.doctor.finding import Finding, ok, warning, wrong
from flows.pools import POOLS
from flows.tries.confinement import fault

OLDEST_PYTHON = (3, 11)
LEAST_FREE_GB, ENOUGH_FREE_GB = 1.0, 5.0
SETUP = "Run `make setup`"
KEPT_OUTSIDE = ("CAIRN_SECRETS_KEYS", "CAIRN_AUDIT_KEYS")
YES = {"1", "true", "yes", "on", "t", "y"}
# Written last by domain/console/web/build.mjs: whole where it is there.
CONSOLE_SCRIPTS = Path(__file__).resolve().parents[2] / "domain/console/static/vendor/countries.json"


def python(version: tuple[int, ...]) -> Finding:
    shown, least = ".".join(map(str, version[:3])), ".".join(map(str, OLDEST_PYTHON))
    if version[:2] < OLDEST_PYTHON:
        return wrong("python", shown, f"Python {least} or newer is needed: `make setup PYTHON=/path/to/python3`.")
    return ok("python", shown)


def postgres(binaries: Path | None, extensions: Iterable[Path]) -> list[Finding]:
    """The programs of a private cluster, and PostGIS among what they can load."""
    instead = "or set CAIRN_DATABASE_URL to a server of yours."
    if binaries is None:
        advice = f"{SETUP}, or install the packages postgresql and postgresql-postgis, {instead}"
        return [wrong("postgresql", "its programs are not installed", advice)]
    found = ok("postgresql", str(binaries))
    if any((folder / "postgis.control").exists() for folder in extensions):
        return [found, ok("postgis", "installed for this PostgreSQL")]
    advice = f"{SETUP}, or install the package postgresql-postgis of the same version, {instead}"
    return [found, wrong("postgis", "not installed for this PostgreSQL", advice)]


def extension_folders(binaries: Path) -> list[Path]:
    """Where a PostgreSQL of these programs looks for extensions: Debian's place, and those beside the programs."""
    above = binaries.parent
    debian = Path("/usr/share/postgresql") / above.name
    return [share / "extension" for share in (debian, above / "share", above / "share/postgresql")]


def program(name: str, package: str) -> Finding:
    if found := shutil.which(name):
        return ok(name, found)
    return wrong(name, "not installed", f"{SETUP}, or install the package {package}.")


def console(scripts: Path = CONSOLE_SCRIPTS) -> Finding:
    if scripts.exists():
        return ok("console", "its scripts are built")
    missing = [name for name in ("node", "npm") if shutil.which(name) is None]
    needs = f" and installs {' and '.join(missing)}" if missing else ""
    return wrong("console", "its scripts are not built", f"{SETUP}: it builds them{needs}.")


def disk(place: Path) -> Finding:
    free = shutil.disk_usage(place).free / 1e9
    detail = f"{free:.1f} GB free at {place}"
    if free < LEAST_FREE_GB:
        return wrong("disk", detail, f"Free some: less than {LEAST_FREE_GB:.0f} GB is too little for any product.")
    if free < ENOUGH_FREE_GB:
        return warning("disk", detail, "Free some before large rasters come: a try may need several times their size.")
    return ok("disk", detail)


def ports(taken: Mapping[str, int]) -> Finding:
    """Preferred ports that another program has, by service."""
    if not taken:
        return ok("ports", "all preferred ones are free")
    named = ", ".join(f"{port} ({service})" for service, port in sorted(taken.items()))
    return warning("ports", f"taken: {named}", "The stack takes the next free ones; `cairn status` shows which.")


def confinement(held: set[str], wanted: str) -> Finding:
    """`wanted` is the value of CAIRN_TRY_CONFINEMENT."""
    if wanted == "off":
        advice = "Unset CAIRN_TRY_CONFINEMENT unless you know every file: what GDAL reads may take its process over."
        return warning("confinement", "switched off by CAIRN_TRY_CONFINEMENT", advice)
    if lacking := fault(held):
        advice = "Use a kernel of 5.13 or newer, with Landlock switched on, and a container that allows both."
        if wanted == "required":
            pools = " and ".join(POOLS.confined())
            return wrong("confinement", f"{lacking} Workers of the {pools} pool refuse to start.", advice)
        return warning("confinement", f"{lacking} Tries run without it.", advice)
    if wanted == "required":
        return ok("confinement", "GDAL tries are kept to their files, or refused")
    return ok("confinement", "GDAL tries are kept to their files; with CAIRN_TRY_CONFINEMENT=required, or refused")


def keys(environment: Mapping[str, str]) -> list[Finding]:
    """Whether the domain would start with what this environment says; nothing where none is set up in it."""
    if "CAIRN_PUBLIC_URL" not in environment or environment.get("CAIRN_DEVELOPMENT", "").lower() in YES:
        return []
    missing = [name for name in KEPT_OUTSIDE if not environment.get(name)]
    if missing:
        advice = "Make each as deployments/compose.env.example says; the domain does not start without them."
        return [wrong("keys", f"{' and '.join(missing)} are not set", advice)]
    return [ok("keys", "set for callback secrets and for the audit")]


def confinement_wanted() -> str:
    return os.environ.get("CAIRN_TRY_CONFINEMENT", "available")
