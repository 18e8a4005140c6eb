"""Asks a public list of vulnerabilities about every package that images install: `make audit`, by pip-audit.

Where the list cannot be reached, nothing is known, which is said and is no failure: a build must not need it.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deployments.lock import EXTRAS, LOCKED

TIMEOUT_SECONDS = 5


def ask(osv_url: str | None) -> list[dict[str, Any]] | None:
    """Return what is known of each locked package; None where the list cannot be reached."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told.json"
        command = [sys.executable, "-m", "pip_audit", "--vulnerability-service", "osv", "--progress-spinner", "off"]
        command += ["--osv-url", osv_url] if osv_url else []
        command += ["--timeout", str(TIMEOUT_SECONDS), "--cache-dir", folder, "--format", "json", "--output", str(told)]
        command += ["--disable-pip", "--require-hashes"]  # the locks are whole: nothing is looked up or installed
        for extra in EXTRAS:
            command += ["--requirement", str(LOCKED / f"{extra}.txt")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if told.exists() and (words := told.read_text()):
            found: list[dict[str, Any]] = json.loads(words)["dependencies"]
            return found
    print(done.stderr.strip().splitlines()[-1][:300] if done.stderr.strip() else "", file=sys.stderr)  # noqa: T201
    return None


def faults(packages: list[dict[str, Any]]) -> Iterator[str]:
    """A line for each known vulnerability."""
    for package in packages:
        for fault in package.get("vulns", ()):
            mended = ", ".join(fault["fix_versions"]) or "no version yet"
            yield f"{package['name']} {package['version']}: {fault['id']}, mended in {mended}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make audit", description=__doc__)
    parser.add_argument("--osv-url", help="Another list that answers as OSV does.")
    packages = ask(parser.parse_args(arguments).osv_url)
    if packages is None:
        print("No list of vulnerabilities could be reached: nothing is known of the packages.", file=sys.stderr)  # noqa: T201
        return 0
    found = sorted(set(faults(packages)))
    for line in found:
        print(line)  # noqa: T201
    asked = len({package["name"] for package in packages})
    print(f"{asked} packages, {len(found)} known vulnerabilities.")  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
