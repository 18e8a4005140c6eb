"""bench: the project's own measurements, each with its baseline in the same run."""

import importlib
import pkgutil
from typing import Any

import click

from deployments.cli.output import fail, json_option, print_json, table
from deployments.stack.owner import interrupt_at_sigterm


def known() -> list[str]:
    """The benchmarks there are: modules of `benchmarks/`."""
    import benchmarks

    names = (module.name for module in pkgutil.iter_modules(benchmarks.__path__))
    return sorted(name for name in names if not name.startswith("_"))


@click.command()
@click.argument("name", required=False)
@json_option
def bench(name: str | None, as_json: bool) -> None:
    """Run the benchmark NAME and compare with its target; without NAME, list what there is.

    The exit code is 0 whatever holds: a benchmark tells, it does not judge.
    """
    if name is None:
        print_json(known()) if as_json else click.echo("\n".join(known()))
        return
    if name not in known():
        fail(f"there is no benchmark {name!r}. Known are: {', '.join(known())}.")
    interrupt_at_sigterm()
    try:
        outcome = importlib.import_module(f"benchmarks.{name}").run()
    except KeyboardInterrupt:
        fail("interrupted; everything that was started is stopped.", 1)
    if as_json:
        print_json(outcome)
        return
    headings = ("what", "value", "baseline", "ratio", "target", "holds", "n")
    table(headings, (_row(result) for result in outcome["results"]))


def _row(result: dict[str, Any]) -> list[str]:
    holds = {True: "yes", False: "no"}.get(result["holds"], "—")
    target = _number(result["target"])
    return [
        result["name"],
        f"{_number(result['value'])} {result['unit']}",
        _number(result["baseline"]),
        _number(result["ratio"]),
        target,
        holds,
        str(result["n"]),
    ]


def _number(value: float | None) -> str:
    return "—" if value is None else f"{value:.4g}"
