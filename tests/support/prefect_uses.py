"""Which names of Prefect's insides our code uses, read from its source: imports, attributes, keywords, strings.

It is read, not run: what a release lacks cannot hide what we ask of it. Names are inside where Prefect promises nothing
of them: those with an underscore, and all of modules that are not in `PROMISED`.
"""

import ast
import importlib.util
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path

from flows.prefect_engine.insides import Inside
from tests.support.prefect_names import holds

ROOMS = ("flows", "domain", "deployments", "blocks", "gateway")
PROMISED = (  # what its documentation tells users to import
    "prefect", "prefect.blocks", "prefect.cache_policies", "prefect.client.orchestration", "prefect.client.schemas",
    "prefect.concurrency.asyncio", "prefect.events", "prefect.exceptions", "prefect.flows", "prefect.futures",
    "prefect.runtime", "prefect.states", "prefect.task_runners", "prefect.tasks",
)  # fmt: skip
PACKAGES = ("prefect.client.schemas", "prefect.blocks")  # with all that is in them
LOGGERS = ("prefect.flow_runs", "prefect.task_runs")  # are called as modules are
PYTHONS = {
    *dir(type),
    *dir(Exception),
    *dir(is_dataclass),
    "__aenter__",
    "__aexit__",
    "__enter__",
    "__exit__",
    "__path__",
    "__signature__",
}
DOTTED = re.compile(r"prefect(_\w+)?(\.\w+)*\.?")
TABLE = "flows/prefect_engine/insides.py"
Name = tuple[str, str]  # a module and what is used of it, "" for the module itself
ANY = "*"  # stands for the class that only a run would know


def is_inside(module: str, attribute: str) -> bool:
    """Whether Prefect promises nothing of this name."""
    if any(part.startswith("_") and not part.startswith("__") for part in [*module.split("."), *attribute.split(".")]):
        return True
    return module not in PROMISED and not module.startswith(tuple(f"{name}." for name in PACKAGES))


@dataclass
class _Class:
    """A class of ours and what it takes from those that it is made from."""

    bases: list[str]
    own: set[str]
    asked: set[str]
    imported: dict[str, Name]
    file: str


@dataclass
class Uses:
    """What is used of Prefect's insides, each with the files that do."""

    found: dict[Name, set[str]] = field(default_factory=dict)
    classes: dict[str, _Class] = field(default_factory=dict)

    def add(self, name: Name, file: str) -> None:
        if is_inside(*name):
            self.found.setdefault(name, set()).add(file)

    def all(self) -> dict[Name, set[str]]:
        """What is found, with what classes take from Prefect's: known once all of them have been read."""
        for made in self.classes.values():
            _add_inherited(made, self)
        return self.found


def unlisted(found: dict[Name, set[str]], listed: Iterable[Inside]) -> dict[Name, set[str]]:
    """What is used and not listed. Of a class that only a run would know, any listed one may be meant."""
    known = {(name.module, name.attribute) for name in listed}
    last = {attribute.rpartition(".")[2] for _, attribute in known}
    return {
        (module, attribute): files
        for (module, attribute), files in found.items()
        if (module, attribute) not in known and not (module == ANY and attribute in last)
    }


def uses(root: Path, rooms: tuple[str, ...] = ROOMS) -> dict[Name, set[str]]:
    """Every name of Prefect's insides that the code of these rooms uses, with the files that use it."""
    all_uses = Uses()
    for room in rooms:
        for path in sorted((root / room).rglob("*.py")):
            if path == root / TABLE:
                continue
            read(path.read_text(), str(path.relative_to(root)), all_uses)
    return all_uses.all()


def read(source: str, file: str, into: Uses) -> None:
    """Add what one file uses."""
    tree = ast.parse(source)
    imported = dict(_imports(tree))
    for name in imported.values():
        into.add(name, file)
    for node in ast.walk(tree):
        for name in _named(node, imported):
            into.add(name, file)
        if isinstance(node, ast.ClassDef):
            into.classes[node.name] = _class(node, imported, file)


def _imports(tree: ast.Module) -> Iterator[tuple[str, Name]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and DOTTED.match(node.module + "."):
            for alias in node.names:
                yield alias.asname or alias.name, (node.module, alias.name)


def _named(node: ast.AST, imported: dict[str, Name]) -> Iterator[Name]:
    """What this piece of code names of Prefect: by an import of its file, by a string, or by an underscore."""
    match node:
        case ast.Attribute(value=ast.Name(id=of), attr=attribute) if of in imported:
            module, name = imported[of]
            yield module, f"{name}.{attribute}"
        case (
            ast.Attribute(value=ast.Name(id="self" | "cls")) | ast.Attribute(value=ast.Call(func=ast.Name(id="super")))
        ):
            pass  # what its class takes
        case ast.Attribute(value=ast.Name(id="os")):
            pass
        case ast.Attribute(attr=attribute) if imported and attribute.startswith("_") and attribute not in PYTHONS:
            yield ANY, attribute
        case ast.Subscript(value=ast.Call(func=ast.Name(id="vars")), slice=ast.Constant(value=str(name))) if imported:
            yield ANY, name
        case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="vars"))), keywords=keywords) if imported:
            yield from ((ANY, given.arg) for given in keywords if given.arg)
        case ast.Call(func=ast.Name(id=of), keywords=keywords) if of in imported:
            module, name = imported[of]
            yield from ((module, f"{name}({given.arg})") for given in keywords if given.arg)
        case ast.Constant(value=str(text)) if DOTTED.fullmatch(text) and "." in text and _is_module(text):
            yield text, ""


def _is_module(dotted: str) -> bool:
    try:
        return dotted not in LOGGERS and importlib.util.find_spec(dotted) is not None
    except (ImportError, ValueError):
        return False


def _class(node: ast.ClassDef, imported: dict[str, Name], file: str) -> _Class:
    bases = [name for base in node.bases if (name := _first_name(base))]
    own = {name for statement in node.body for name in _bound(statement)}
    asked: set[str] = set()
    for inner in ast.walk(node):
        match inner:
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
                asked.add(name)
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name):
                asked.add(name)
            case _:
                pass
    return _Class(bases, own, asked, imported, file)


def _first_name(base: ast.expr) -> str | None:
    while isinstance(base, ast.Subscript):
        base = base.value
    return base.id if isinstance(base, ast.Name) else None


def _bound(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
            yield name
        case _:
            pass


def _add_inherited(made: _Class, into: Uses) -> None:
    """What a class of ours takes from Prefect's, and what of theirs it replaces."""
    bases = list(dict.fromkeys(_prefects_bases(made, into.classes)))
    for name in made.own | made.asked if bases else ():
        holders = [(module, base) for module, base in bases if holds(module, f"{base}.{name}")]
        if holders:
            module, base = holders[0]
            into.add((module, f"{base}.{name}"), made.file)


def _prefects_bases(made: _Class, classes: dict[str, _Class]) -> Iterator[Name]:
    for base in made.bases:
        if base in made.imported:
            yield made.imported[base]
        elif base in classes:
            yield from _prefects_bases(classes[base], classes)
