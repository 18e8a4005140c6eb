"""Writes what each image is made of, as CycloneDX: packages, versions, licences and hashes. `make bill`."""

import argparse
import json
from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from deployments.lock import EXTRAS, LOCKED, OURS, Lock, read

SPEC = "1.6"
LONGEST_NAME = 100  # some packages give their licence's whole text as its name
CLASSIFIER = "License :: "
SILENT = {"hydraters": "MIT"}  # what says nothing in its metadata, by its licence's text


def licence_of(package: str) -> dict[str, Any] | None:
    """Return the package's licence: an expression, else the index's words for it, else its own."""
    told = distribution(package).metadata
    if "License-Expression" in told:
        return {"expression": told["License-Expression"]}
    classified = [
        line.rpartition(" :: ")[2] for line in told.get_all("Classifier") or () if line.startswith(CLASSIFIER)
    ]
    own = (told.get_all("License") or [""])[0].strip().partition("\n")[0][:LONGEST_NAME]
    names = classified or [own] * bool(own) or [SILENT[package]] * (package in SILENT)
    return {"license": {"name": "; ".join(names)}} if names else None


def component(name: str, version: str, hashes: set[str]) -> dict[str, Any]:
    licence, address = licence_of(name), f"pkg:pypi/{name}@{version}"
    content = [{"alg": "SHA-256", "content": each.removeprefix("sha256:")} for each in sorted(hashes)]
    # A package has a file for each kind of machine: the bill names its hash where there is but one.
    known = {"hashes": content} if len(content) == 1 else {}
    said = {"licenses": [licence]} if licence else {}
    return {"type": "library", "bom-ref": address, "purl": address, "name": name, "version": version, **known, **said}


def bill(image: str, lock: Lock) -> dict[str, Any]:
    """Return one image's bill, the same to the byte for the same lock: it holds no time and no number."""
    ours: Mapping[str, str] = {"type": "application", "name": f"{OURS}[{image}]", "version": distribution(OURS).version}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": SPEC,
        "version": 1,
        "metadata": {"component": {**ours, "bom-ref": OURS, "licenses": [licence_of(OURS)]}},
        "components": [component(name, *lock[name]) for name in sorted(lock)],
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="make bill", description=__doc__)
    parser.add_argument("folder", type=Path, help="Where the files go, one for each image.")
    folder: Path = parser.parse_args(arguments).folder
    folder.mkdir(parents=True, exist_ok=True)
    for image in EXTRAS:
        made = bill(image, read(LOCKED / f"{image}.txt"))
        (folder / f"{image}.cdx.json").write_text(json.dumps(made, indent=2) + "\n")
        print(f"{folder}/{image}.cdx.json: {len(made['components'])} packages")  # noqa: T201


if __name__ == "__main__":
    main()
