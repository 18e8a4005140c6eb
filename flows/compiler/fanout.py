"""A fan-out at run time: expanding a source into children, counting how they end, aggregating what they return."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, assert_never

from flows.compiler.expressions import ExpressionError, Names, parse_template, render
from flows.compiler.messages import Item, ItemCompleted, ItemFailed, RunError
from flows.compiler.plan import FanIn, FanOut, Node


class CannotExpand(ValueError):
    """The fan-out's source or keys are unusable."""


class CannotAggregate(ValueError):
    """The outputs do not have what the aggregation asks for."""


@dataclass
class Expansion:
    """The children of one fan-out and how they ended, in whatever order that came."""

    fan_out: FanOut
    node_id: str
    count: int
    items: tuple[Item, ...] = ()
    keys: dict[int, str] = field(default_factory=dict)
    succeeded: dict[int, Any] = field(default_factory=dict)
    failed: dict[int, RunError] = field(default_factory=dict)
    _first_failed: int | None = None

    def note(self, event: ItemCompleted | ItemFailed) -> None:
        """Note how a child ended."""
        if isinstance(event, ItemCompleted):
            self.succeeded[event.index] = event.output
        else:
            self.failed[event.index] = event.error
            self._first_failed = event.index if self._first_failed is None else min(self._first_failed, event.index)

    def is_open(self, index: int) -> bool:
        """Whether this child exists and has not ended."""
        return 0 <= index < self.count and index not in self.succeeded and index not in self.failed

    @property
    def is_done(self) -> bool:
        return len(self.succeeded) + len(self.failed) == self.count

    @property
    def is_tolerable(self) -> bool:
        return self.fan_out.tolerates(len(self.failed), self.count)

    def error(self) -> RunError:
        """Why the fan-out failed: its first failed child speaks for all, the counts for how the others ended."""
        assert self._first_failed is not None  # noqa: S101 - it is asked of a fan-out with failures
        index = self._first_failed
        first = self.failed[index]
        left = self.count - len(self.failed) - len(self.succeeded)
        counts = [f"{len(self.failed)} of {self.count} children failed", f"{len(self.succeeded)} succeeded"]
        counts += [f"{left} not begun or cut short"] if left else []
        message = f"{', '.join(counts)}; {self.node_id}__{index}: {first.message}"
        return RunError("too-many-failures", message, self.node_id, first.partner_may_read)

    def output(self) -> dict[str, Any]:
        children = [f"{self.node_id}__{index}" for index in range(self.count)]
        return {"fan_out_count": self.count, "child_node_ids": children}

    def failures(self) -> list[dict[str, Any]]:
        """The failed children as a fan-in reports them."""
        return [
            {"key": self.keys[index], "index": index, "error": self.failed[index].message}
            for index in sorted(self.failed)
        ]


def expand(node: Node, names: Names) -> Expansion:
    """Make the children. A child whose parameters cannot be rendered starts out failed, and counts as one."""
    fan_out = node.fan_out
    assert fan_out is not None  # noqa: S101 - a fan_out node has its fan-out by construction
    elements = _elements(fan_out, names)
    expansion = Expansion(fan_out, node.id, len(elements))
    items = []
    for index, element in enumerate(elements):
        own = {**names, "index": index, "items" if fan_out.batch_size else "item": element}
        key = _key(fan_out, index, own)
        expansion.keys[index] = key
        try:
            items.append(Item(index, key, render(node.params, own)))
        except ExpressionError as error:
            expansion.note(ItemFailed(node.id, index, RunError("template-error", str(error), node.id)))
    _refuse_repeated_keys(expansion.keys)
    expansion.items = tuple(items)
    return expansion


def _elements(fan_out: FanOut, names: Names) -> Sequence[Any]:
    source = render(fan_out.source, names)
    if not isinstance(source, list | tuple):
        raise CannotExpand(f"the source is not a list but {type(source).__name__}")
    size = fan_out.batch_size
    return [source[start : start + size] for start in range(0, len(source), size)] if size else source


def _key(fan_out: FanOut, index: int, names: Names) -> str:
    return str(index) if fan_out.item_key is None else str(parse_template(fan_out.item_key).value(names))


def _refuse_repeated_keys(keys: Mapping[int, str]) -> None:
    first: dict[str, int] = {}
    for index, key in keys.items():
        if first.setdefault(key, index) != index:
            raise CannotExpand(f"children {first[key]} and {index} have one key: {key[:100]!r}")


def aggregate(fan_in: FanIn, expansion: Expansion) -> dict[str, Any]:
    """The fan-in's output, in item order."""
    outputs = [expansion.succeeded[index] for index in sorted(expansion.succeeded)]
    return _aggregated(fan_in, outputs) | {"succeeded": len(outputs), "failed": expansion.failures()}


def _aggregated(fan_in: FanIn, outputs: list[Any]) -> dict[str, Any]:
    match fan_in.aggregation:
        case "collect":
            return {"results": outputs, "count": len(outputs)}
        case "concat":
            lists = [_values_of_kind(fan_in, output, list) for output in outputs]
            results = list(chain.from_iterable(chain.from_iterable(lists)))
            return {"results": results, "count": len(results)}
        case "sum":
            numbers = [_values_of_kind(fan_in, output, int | float) for output in outputs]
            return {"total": sum(chain.from_iterable(numbers)), "count": len(outputs)}
        case "first":
            return {"result": outputs[0] if outputs else None, "count": len(outputs)}
        case "last":
            return {"result": outputs[-1] if outputs else None, "count": len(outputs)}
        case _:
            assert_never(fan_in.aggregation)


def _values_of_kind(fan_in: FanIn, output: Any, kind: Any) -> list[Any]:
    """Return the values of this kind in one output: of the named field, or all of them."""
    if fan_in.field is None:
        values = output.values() if isinstance(output, Mapping) else [output]
        return [value for value in values if _is_of_kind(value, kind)]
    value = output.get(fan_in.field) if isinstance(output, Mapping) else None
    if not _is_of_kind(value, kind):
        wanted = "a list" if kind is list else "a number"
        raise CannotAggregate(f"{fan_in.aggregation} needs {wanted} in field {fan_in.field!r} of every output")
    return [value]


def _is_of_kind(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
