"""Applications by the hundred: each would analyse the parameters of every route anew at its first request.

That took more of a test's time than the test. What comes of it is the same for each application made of the same
routers, but for whose dependencies it overrides; none of ours does.
"""

from dataclasses import replace
from typing import Any

from fastapi import routing

_KEPT = "_contexts_of_tests"


def remember_routes() -> None:
    """Have applications that include the same router in the same way share what was learnt of its routes."""
    kind = routing._EffectiveRouteContext
    analyse: Any = kind.from_api_route

    def from_api_route(*, original_route: Any, include_context: Any) -> Any:
        way = replace(include_context, dependency_overrides_provider=None)
        kept: list[tuple[Any, Any]] = vars(original_route).setdefault(_KEPT, [])
        for known, context in kept:
            if known == way:
                return context
        kept.append((way, analyse(original_route=original_route, include_context=way)))
        return kept[-1][1]

    setattr(kind, "from_api_route", staticmethod(from_api_route))  # noqa: B010 - private to FastAPI
