"""What tries need of a host, worked out when they are ordered. Pure."""

import math
from collections.abc import Iterable

from flows.compiler.expressions import ExpressionError, Names, render
from flows.compiler.plan import Resources


def rendered_needs(needs: Resources, names: Names) -> Resources:
    """Return the needs with their memory as a number. Raises where its template gives none."""
    if not isinstance(needs.memory_mb, str):
        return needs
    found = render(needs.memory_mb, names)
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found) or found <= 0:
        raise ExpressionError(f"resources.memory_mb is {str(found)[:100]!r}, not a number of megabytes")
    return Resources(float(found), needs.cpus, needs.gpu)


def most(needs: Iterable[Resources]) -> Resources:
    """Return the most of each that one of them needs. A template that nobody has rendered yet counts for nothing."""
    known = list(needs)
    memory = [float(one.memory_mb) for one in known if isinstance(one.memory_mb, int | float)]
    cpus, gpus = [one.cpus for one in known if one.cpus], [one.gpu for one in known if one.gpu]
    return Resources(max(memory, default=None), max(cpus, default=None), max(gpus, default=None))
