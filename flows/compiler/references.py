"""What an expression reads, and what it may not be made of, found without evaluating it. Knows only Jinja's tree."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from jinja2 import nodes

from flows.compiler.faults import did_you_mean, listing
from flows.compiler.filters import FILTERS
from flows.compiler.sandbox import TESTS

# Keys that read as methods of a mapping: in Jinja `x.items` is a method, so the language asks for x["items"].
METHOD_NAMES = frozenset(("items", "keys", "values", "get", "pop", "update", "copy"))
MAX_TREE_DEPTH = 60

_ALLOWED = (
    nodes.Name,
    nodes.Const,
    nodes.TemplateData,
    nodes.Getattr,
    nodes.Getitem,
    nodes.Slice,
    nodes.Filter,
    nodes.Test,
    nodes.Compare,
    nodes.Operand,
    nodes.BinExpr,
    nodes.UnaryExpr,
    nodes.Concat,
    nodes.CondExpr,
    nodes.List,
    nodes.Tuple,
    nodes.Dict,
    nodes.Pair,
    nodes.Keyword,
)


@dataclass(frozen=True)
class Complaint:
    """Something wrong inside a template. The compiler adds the place."""

    code: str
    message: str
    hint: str = ""


@dataclass(frozen=True)
class Reference:
    """A static path that an expression reads: `nodes.a.output.b[0]` is root `nodes`, steps ("a", "output", "b", 0)."""

    root: str
    steps: tuple[str | int, ...]
    guarded: bool = False  # a default, or a test for being defined, covers the case that it is missing
    tested: bool = False  # the expression asks whether it is defined

    def __str__(self) -> str:
        shown = self.root
        for step in self.steps:
            shown += f".{step}" if isinstance(step, str) else f"[{step}]"
        return shown


class Cover(Enum):
    """What stands between an expression and a value that is missing."""

    NONE = 0
    DEFAULT = 1
    TEST = 2


_COVERS = {"default": Cover.DEFAULT, "defined": Cover.TEST, "undefined": Cover.TEST}
Finding = Reference | Complaint


def findings(tree: nodes.Node) -> Iterator[Finding]:
    """Every reference and every complaint of the expression, in the order it is written."""
    stack: list[tuple[nodes.Node, Cover, int]] = [(tree, Cover.NONE, 0)]
    while stack:
        node, cover, depth = stack.pop()
        if depth > MAX_TREE_DEPTH:
            yield Complaint("template-syntax", "the expression is nested too deeply", "split it over two nodes")
            return
        children: list[tuple[nodes.Node, Cover]] = []
        yield from _look_at(node, cover, children)
        stack.extend((child, covered, depth + 1) for child, covered in reversed(children))


def _look_at(node: nodes.Node, cover: Cover, children: list[tuple[nodes.Node, Cover]]) -> Iterator[Finding]:
    """Report on one node; add what lies below it to `children`, with whether a default covers it."""
    match node:
        case nodes.Call():
            yield from _call(node)
            children.extend((argument, Cover.NONE) for argument in node.args)
        case nodes.Name() | nodes.Getattr() | nodes.Getitem():
            yield from _path(node, cover, children)
        case nodes.Filter() | nodes.Test():
            yield from _filter_or_test(node)
            own = _COVERS.get(node.name, Cover.NONE)
            children.extend((child, own if child is node.node else Cover.NONE) for child in node.iter_child_nodes())
        case nodes.CondExpr():
            children.extend((child, Cover.NONE if child is node.test else cover) for child in node.iter_child_nodes())
        case _ if isinstance(node, _ALLOWED):
            children.extend((child, Cover.NONE) for child in node.iter_child_nodes())
        case _:
            kind = type(node).__name__.lower()
            yield Complaint(
                "template-syntax", f"{kind} has no place in a template", "a template holds expressions only"
            )


def _call(node: nodes.Call) -> Iterator[Complaint]:
    called = node.node
    if isinstance(called, nodes.Getattr) and called.attr in METHOD_NAMES:
        message = f"{called.attr!r} is a method, and templates call nothing"
        yield Complaint("method-name", message, _brackets(called.attr))
        return
    name = called.name if isinstance(called, nodes.Name) else ""
    known = f"there are filters, as in value | lower: {listing(FILTERS, 30)}"
    hint = f"write it as a filter: value | {name}" if name in FILTERS else known
    yield Complaint("template-syntax", "templates call nothing", hint)


def _brackets(name: str) -> str:
    return f"if it is a key, write ['{name}'] in place of .{name}"


def _path(node: nodes.Expr, cover: Cover, children: list[tuple[nodes.Node, Cover]]) -> Iterator[Finding]:
    """Walk from the end of `a.b[0].c` down to its root. Steps above a computed index are not static: drop them."""
    steps: list[str | int] = []
    length = 0
    while isinstance(node, nodes.Getattr | nodes.Getitem):
        if isinstance(node, nodes.Getattr):
            yield from _attribute(node.attr)
            steps.append(node.attr)
        elif isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str | int):
            steps.append(node.arg.value)
        else:
            steps.clear()
            children.append((node.arg, Cover.NONE))
        node = node.node
        length += 1
    if length > MAX_TREE_DEPTH:
        yield Complaint("template-syntax", "the path is too long", "read it in two nodes")
    elif isinstance(node, nodes.Name):
        yield Reference(node.name, tuple(reversed(steps)), cover is not Cover.NONE, cover is Cover.TEST)
    else:
        children.append((node, cover))


def _attribute(name: str) -> Iterator[Complaint]:
    if name.startswith("_"):
        yield Complaint(
            "template-syntax", f"{name!r}: names that start with an underscore are closed", "rename the key"
        )
    elif name in METHOD_NAMES:
        yield Complaint("method-name", f"{name!r} is the name of a mapping's method", _brackets(name))


def _filter_or_test(node: nodes.Filter | nodes.Test) -> Iterator[Complaint]:
    if isinstance(node, nodes.Filter) and node.name not in FILTERS:
        hint = did_you_mean(node.name, FILTERS, f"there are {listing(FILTERS, 30)}")
        yield Complaint("unknown-filter", f"there is no filter {node.name!r}", hint)
    if isinstance(node, nodes.Test) and node.name not in TESTS:
        hint = did_you_mean(node.name, TESTS, f"there are {listing(TESTS, 30)}")
        yield Complaint("template-syntax", f"there is no test {node.name!r}", hint)
