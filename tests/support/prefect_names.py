"""Whether the installed release of Prefect has a name. Run as a module, it tells which of our table's it lacks.

Runs under any release, so it may import nothing of ours but the table.
"""

import importlib
import inspect
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache

from flows.prefect_engine.insides import Inside, insides

KEYWORD = re.compile(r"(?P<of>.+)\((?P<keyword>\w+)\)")


def holds(module: str, attribute: str) -> bool:
    """Whether Prefect has this module, and in it this attribute of an attribute, or this parameter of a callable."""
    try:
        found = importlib.import_module(module)
    except ImportError:
        return False
    if with_keyword := KEYWORD.fullmatch(attribute):
        called = _reached(found, with_keyword["of"])
        return called is not None and _takes(called, with_keyword["keyword"])
    return not attribute or _reached(found, attribute) is not None


def lacking(names: Iterable[Inside] | None = None) -> list[str]:
    """Which of these the installed release lacks, by name."""
    return [
        f"{name}, for: {name.why}"
        for name in (insides() if names is None else names)
        if not holds(name.module, name.attribute)
    ]


def _reached(start: object, path: str) -> object:
    found = start
    for part in path.split("."):
        if inspect.ismodule(found) and not hasattr(found, part):
            with suppress(ImportError):
                importlib.import_module(f"{found.__name__}.{part}")
        if hasattr(found, part):
            found = getattr(found, part)
            found = True if found is None else found
        elif inspect.isclass(found) and _sets(found, part):
            return True
        else:
            return None
    return found


def _sets(kind: type, name: str) -> bool:
    """Whether objects of this class have what the class has not: a field, or what one of its methods sets."""
    kept = re.escape(name)
    assigned = re.compile(rf'\bself\.{kept}\b(:[^=\n]+)?\s*=[^=]|getattr\(self, "{kept}"')
    for base in kind.__mro__:
        if name in {**vars(base).get("__annotations__", {}), **getattr(base, "model_fields", {})}:
            return True
        if base.__module__.startswith("prefect") and assigned.search(_source(base)):
            return True
    return False


@cache
def _source(kind: type) -> str:
    return inspect.getsource(kind)


def _takes(called: object, keyword: str) -> bool:
    if not callable(called):
        return False
    known = {**getattr(called, "model_fields", {}), **inspect.signature(called).parameters}
    return keyword in known


if __name__ == "__main__":
    import prefect

    missing = lacking()
    told = [f"Prefect {prefect.__version__} lacks {name}" for name in missing]
    sys.stdout.write("\n".join([*told, f"Prefect {prefect.__version__}: {len(missing)} names are missing"]) + "\n")
    sys.exit(bool(missing))
