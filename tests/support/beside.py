"""Another release of Prefect beside the pinned one: `python -m tests.support.beside [--names] [VERSION]`, else newest.

It is installed over everything else of `.venv`, in an environment of its own below `.cairn`. Then our table of names is
held against it, and unless only the names are asked for, the contract of both engines runs with it.
"""

import re
import subprocess
import sys
import venv
from pathlib import Path
from sysconfig import get_path

REPOSITORY = Path(__file__).resolve().parents[2]
CONTRACT = "tests/flows/prefect_engine"


def environment_with(version: str) -> Path:
    """The Python whose Prefect is of this release, `newest` for whatever there is."""
    folder = REPOSITORY / ".cairn" / "contract" / version
    python = folder / "bin" / "python"
    venv.create(folder, with_pip=False, symlinks=True)
    place = _said(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    # What it installs itself comes first; all else, pip too, is what `.venv` has.
    (Path(place) / "beside.pth").write_text(f"import site; site.addsitedir({get_path('purelib')!r})\n")
    asked = "prefect" if version == "newest" else f"prefect=={version}"
    install = (python, "-m", "pip", "install", "--quiet", "--upgrade", asked)
    try:
        _said(*install)
    except subprocess.CalledProcessError as error:
        why = error.stderr.strip().splitlines()[-1:]
        sys.stderr.write(f"{asked} is put over the packages that there are: {' '.join(why)}\n")
        _said(*install, "--no-deps")
        told = subprocess.run([python, "-m", "pip", "check"], capture_output=True, text=True, check=False).stdout
        if missing := re.findall(r"requires (\S+), which is not installed", told):
            _said(python, "-m", "pip", "install", "--quiet", *missing)
    return python


def main() -> int:
    only_names = "--names" in sys.argv
    version = next((one for one in sys.argv[1:] if not one.startswith("-")), "newest")
    try:
        python = environment_with(version)
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"Prefect {version} cannot be installed here: {(error.stderr or '').strip()[-500:]}\n")
        return 0 if only_names else 1
    names = subprocess.run([python, "-m", "tests.support.prefect_names"], cwd=REPOSITORY, check=False).returncode
    if only_names or names:
        return names
    return subprocess.run([python, "-m", "pytest", "-q", CONTRACT], cwd=REPOSITORY, check=False).returncode


def _said(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
