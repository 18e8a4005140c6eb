"""Boolean functions over a run's decisions, as shared binary decision diagrams.

Whether a node may be skipped while another runs is a question about every combination of decisions. Diagrams answer
it without listing combinations: where branches join again the function collapses to true, so long chains of
conditionals stay cheap. A budget bounds the rare graph that does not collapse.
"""

from collections.abc import Callable

Diagram = int  # an index into the table; 0 and 1 are the constants
FALSE: Diagram = 0
TRUE: Diagram = 1
_Shortcut = Callable[[Diagram, Diagram], Diagram | None]


class TooManyDecisions(Exception):
    """The diagrams outgrew their budget: the question stays open."""


def _and(left: Diagram, right: Diagram) -> Diagram | None:
    if FALSE in (left, right):
        return FALSE
    if left in (TRUE, right):
        return right
    return left if right == TRUE else None


def _or(left: Diagram, right: Diagram) -> Diagram | None:
    if TRUE in (left, right):
        return TRUE
    if left in (FALSE, right):
        return right
    return left if right == FALSE else None


def _and_not(left: Diagram, right: Diagram) -> Diagram | None:
    if left in (FALSE, right) or right == TRUE:
        return FALSE
    return left if right == FALSE else None


class Diagrams:
    """A table of shared nodes: (variable, diagram where it is false, diagram where it is true).

    The newest variable is on top: a run's functions grow by one decision at a time, and that is then one node.
    """

    def __init__(self, budget: int = 300_000) -> None:
        self._nodes: list[tuple[int, Diagram, Diagram]] = [(0, FALSE, FALSE), (0, TRUE, TRUE)]
        self._index: dict[tuple[int, Diagram, Diagram], Diagram] = {}
        self._known: dict[tuple[_Shortcut, Diagram, Diagram], Diagram] = {}
        self._budget = budget
        self._variables = 0

    def variable(self) -> Diagram:
        """A fresh decision."""
        self._variables += 1
        return self._node(self._variables, FALSE, TRUE)

    def both(self, left: Diagram, right: Diagram) -> Diagram:
        return self._apply(_and, left, right)

    def either(self, left: Diagram, right: Diagram) -> Diagram:
        return self._apply(_or, left, right)

    def without(self, left: Diagram, right: Diagram) -> Diagram:
        """True where left holds and right does not."""
        return self._apply(_and_not, left, right)

    def _apply(self, shortcut: _Shortcut, left: Diagram, right: Diagram) -> Diagram:
        found = shortcut(left, right)
        if found is not None:
            return found
        key = (shortcut, left, right)
        if key not in self._known:
            self._known[key] = self._combined(*key)
        return self._known[key]

    def _combined(self, shortcut: _Shortcut, left: Diagram, right: Diagram) -> Diagram:
        if len(self._known) >= self._budget:
            raise TooManyDecisions
        top = max(self._nodes[left][0], self._nodes[right][0])
        left_false, left_true = self._split(left, top)
        right_false, right_true = self._split(right, top)
        if_false = self._apply(shortcut, left_false, right_false)
        return self._node(top, if_false, self._apply(shortcut, left_true, right_true))

    def _split(self, diagram: Diagram, variable: int) -> tuple[Diagram, Diagram]:
        own, if_false, if_true = self._nodes[diagram]
        return (if_false, if_true) if own == variable else (diagram, diagram)

    def _node(self, variable: int, if_false: Diagram, if_true: Diagram) -> Diagram:
        if if_false == if_true:
            return if_false
        key = (variable, if_false, if_true)
        if key not in self._index:
            self._index[key] = len(self._nodes)
            self._nodes.append(key)
        return self._index[key]
