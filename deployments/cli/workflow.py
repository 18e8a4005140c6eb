"""`cairn workflow`: validate, graph, simulate, schema, show, new. A thin door to the compiler, loaded when used.

Exit codes: 0 done, 1 the answer is no (faults, a failed simulation), 2 wrong usage or a file that cannot be read.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deployments.cli.fixtures import read_fixtures

if TYPE_CHECKING:
    from flows.compiler import Compilation, Fault, Plan

_JSON = click.option("--json", "as_json", is_flag=True, help="Answer with JSON on stdout.")
_SUFFIXES = (".yaml", ".yml")
_UNREADABLE = 2


class _WithRun(click.Group):
    """The group; `run`, which talks to a stack and brings its client along, is loaded when it is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), "run"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "run":
            from deployments.cli.workflow_run import run

            return run
        return super().get_command(ctx, cmd_name)


@click.group("workflow", cls=_WithRun)
def workflow() -> None:
    """Check, draw, simulate and run workflows."""


# --- validate ---


@workflow.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--format", "style", type=click.Choice(("text", "json", "github")), default="text", help="How to report.")
@_JSON
def validate(paths: tuple[Path, ...], style: str, as_json: bool) -> None:
    """Report every fault of every file. Folders are searched; without PATHS, workflows/.

    Where a stack is up, or CAIRN_DOMAIN_URL and CAIRN_OPERATOR_TOKEN name a domain, other content under a version that
    is published there is a fault too.
    """
    from flows.compiler.report import report

    files, unreadable = _readable(list(_files(paths or (Path("workflows"),))))
    compilations = _compile(files)
    faults = [fault for compilation in compilations for fault in compilation.faults]
    faults += _reused(compilations)
    sources = {compilation.file: compilation.text for compilation in compilations}
    told = report(faults, sources, "json" if as_json else style)
    if told:
        click.echo(told)
    if style == "text" and not as_json:
        click.echo(_verdict(len(files), len(faults)), err=bool(faults))
    sys.exit(_UNREADABLE if unreadable else 1 if faults else 0)


def _reused(compilations: "Sequence[Compilation]") -> "Iterator[Fault]":
    """Files with other content than what a domain that can be asked has published under their version."""
    from deployments.cli.publishing import DomainUnanswered, identities, known_domain
    from deployments.stack.state import StackState

    domain = known_domain(StackState.default())
    if domain is None:
        return
    from domain.rules.workflows import reused_versions

    try:
        published = domain.published()
    except DomainUnanswered as error:
        click.echo(f"cairn: {error} Published versions were not looked at.", err=True)
        return
    compiled = {compilation.plan.workflow_id: compilation for compilation in compilations if compilation.plan}
    plans = [compilation.plan for compilation in compilations if compilation.plan]
    for name, sentence in reused_versions(identities(plans), published).items():
        yield _version_fault(compiled[name], sentence)


def _version_fault(compilation: "Compilation", sentence: str) -> "Fault":
    """The fault, where the file says its version."""
    from deployments.cli.publishing import version_line
    from flows.compiler import Fault

    return Fault(compilation.file, version_line(compilation.text), 1, "published-version", sentence, "/version")


def _verdict(files: int, faults: int) -> str:
    found = f"{faults} fault{'' if faults == 1 else 's'}" if faults else "no faults"
    return f"{files} file{'' if files == 1 else 's'}, {found}"


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    """The files named, and those of the folders named."""
    for path in paths:
        if path.is_dir():
            yield from sorted(found for found in path.rglob("*") if found.suffix in _SUFFIXES)
        else:
            yield path


def _readable(files: list[Path]) -> tuple[list[Path], bool]:
    """The files that can be read; what cannot is told on stderr, and hides no other."""
    good = []
    for file in dict.fromkeys(files):
        try:
            with file.open("rb"):
                good.append(file)
        except OSError as error:
            click.echo(f"{file}: cannot read: {error.strerror}", err=True)
    if not files:
        click.echo("no workflow files there", err=True)
    return good, len(good) < len(files) or not files


def _compile(files: Sequence[Path]) -> "list[Compilation]":
    from flows.compiler import compile_files
    from flows.handlers.registry import registry

    return compile_files(files, registry())


# --- graph, show ---


@workflow.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--format", "style", type=click.Choice(("mermaid", "dot", "svg")), default="mermaid", help="What to draw."
)
@_JSON
def graph(file: Path, style: str, as_json: bool) -> None:
    """Draw a workflow. No network is used."""
    from flows.compiler.render import dot, mermaid
    from flows.compiler.svg import svg

    plan = _plan(file)
    drawn = {"mermaid": mermaid, "dot": dot, "svg": svg}[style](plan)
    click.echo(json.dumps({"format": style, "graph": drawn}) if as_json else drawn, nl=as_json)


@workflow.command()
@click.argument("file", type=click.Path(path_type=Path))
@_JSON
def show(file: Path, as_json: bool) -> None:
    """Show a workflow's plan as a table, and its digest."""
    plan = _plan(file)
    if as_json:
        click.echo(json.dumps(plan.to_json(), ensure_ascii=False, indent=2))
        return
    click.echo(f"{plan.workflow_id} version {plan.version} ({plan.type})  sha256:{plan.digest}")
    rows = [("NODE", "TYPE", "RUNS", "POOL", "TIMEOUT", "RETRIES", "AFTER")]
    for node in plan.nodes.values():
        timeout = "" if node.timeout_seconds is None else f"{node.timeout_seconds:g} s"
        retries = str(node.retry.max_attempts) if node.handler or node.workflow else ""
        runs = node.handler or node.workflow or ""
        rows.append((node.id, node.type, runs, node.pool or "", timeout, retries, ", ".join(node.predecessors)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _plan(file: Path) -> "Plan":
    """The plan of one workflow file; reports its faults and leaves where it has any."""
    from flows.compiler.report import report

    files, unreadable = _readable([file])
    if unreadable:
        sys.exit(_UNREADABLE)
    (compilation,) = _compile(files)
    if compilation.faults:
        click.echo(report(compilation.faults, {compilation.file: compilation.text}, "text"), err=True)
        sys.exit(1)
    if compilation.plan is None:
        raise click.UsageError(f"{file} is a plan of several workflows; name one of them")
    return compilation.plan


# --- simulate ---


@workflow.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--inputs", "-i", "inputs", multiple=True, metavar="K=V", help="An input; V is JSON, or else text.")
@click.option("--fixtures", type=click.Path(path_type=Path), help="JSON or YAML: what nodes return, by node id.")
@click.option(
    "--fail", "failures", multiple=True, metavar="NODE[:N]", help="Let all tries of a node fail, or the first N."
)
@click.option("--only", default="", metavar="A,B", help="Run these nodes only.")
@click.option("--from", "start_from", default="", metavar="A,B", help="Run these nodes and all that follow.")
@click.argument("more_inputs", nargs=-1, metavar="[K=V]...")
@_JSON
def simulate(
    *,
    file: Path,
    inputs: tuple[str, ...],
    fixtures: Path | None,
    failures: tuple[str, ...],
    only: str,
    start_from: str,
    more_inputs: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run a workflow without workers: handlers return their examples, or what the fixtures say."""
    from flows.compiler import simulate as simulation
    from flows.compiler.inputs import InputFault
    from flows.compiler.schedule import OutOfTurn
    from flows.compiler.selection import UnknownNode, selected
    from flows.handlers.registry import registry

    plan = _plan(file)
    try:
        world = simulation.World(registry(), _plans_beside(file, plan), read_fixtures(fixtures), _failures(failures))
        part = selected(plan, _names(only), _names(start_from))
        result = simulation.simulate(plan, _inputs((*inputs, *more_inputs)), world, only=part)
    except (InputFault, UnknownNode, OutOfTurn, simulation.NoFixture) as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        click.echo(json.dumps(result.to_json(), ensure_ascii=False))
    else:
        for line in simulation.story(result):
            click.echo(line)
        click.echo(f"failed: {result.error.message}" if result.error else f"completed: {json.dumps(result.outputs)}")
    sys.exit(0 if result.succeeded else 1)


def _plans_beside(file: Path, plan: "Plan") -> "dict[str, Plan]":
    """The plans of sub-workflows, from the same folder."""
    if not plan.sub_workflows:
        return {}
    files = [found for found in sorted(file.parent.iterdir()) if found.suffix in _SUFFIXES]
    return {found.plan.workflow_id: found.plan for found in _compile(files) if found.plan}


def _inputs(pairs: tuple[str, ...]) -> dict[str, Any]:
    inputs = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise click.UsageError(f"{pair!r} is not k=v")
        inputs[name] = _json_or_text(value)
    return inputs


def _json_or_text(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def _failures(written: tuple[str, ...]) -> dict[str, int | None]:
    failures: dict[str, int | None] = {}
    for each in written:
        name, colon, times = each.partition(":")
        if colon and not times.isdigit():
            raise click.UsageError(f"{each!r} is not NODE or NODE:N")
        failures[name] = int(times) if colon else None
    return failures


def _names(written: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in written.split(",") if name.strip())


# --- schema, new ---


@workflow.command()
@_JSON
def schema(as_json: bool) -> None:
    """Print the JSON Schema of the language, for editors."""
    from flows.compiler.schema import language_schema

    click.echo(json.dumps(language_schema(), ensure_ascii=False, indent=None if as_json else 2))


@workflow.command()
@click.argument("name")
@click.option("--folder", type=click.Path(path_type=Path), default=Path("workflows"), help="Where to write it.")
@_JSON
def new(name: str, folder: Path, as_json: bool) -> None:
    """Write a small commented workflow that validates."""
    from flows.compiler.starter import BadName, starter

    try:
        text = starter(name)
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{name}.yaml"
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except BadName as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.UsageError(f"cannot write {folder / name}.yaml: {error.strerror}") from None
    click.echo(json.dumps({"file": str(file)}) if as_json else f"wrote {file}; next: cairn workflow validate {file}")
