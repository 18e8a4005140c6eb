"""demo: the whole path in one command."""

import sys
import time
from contextlib import ExitStack
from functools import partial

import click

from deployments.cli.output import json_option, print_json
from deployments.stack.owner import interrupt_at_sigterm
from deployments.stack.state import StackState


@click.command()
@click.option("--seed", default=7, show_default=True, help="Another seed: another raster, another pixel checked.")
@json_option
def demo(seed: int, as_json: bool) -> None:
    """Start the stack, submit a raster as a partner, approve it, read it back, check a pixel, stop the stack.

    A stack that is already up is used and left running.
    """
    interrupt_at_sigterm()
    begun = time.monotonic()
    try:
        outcome = _run(seed, quiet=as_json)
    except KeyboardInterrupt:
        sys.exit("cairn: interrupted; everything that was started is stopped.")
    except RuntimeError as error:  # the stack or the demo said what failed and where its log is
        sys.exit(f"cairn: {error}")
    if as_json:
        print_json(outcome)
    else:
        click.echo(f"Done in {time.monotonic() - begun:.0f} s.")


def _run(seed: int, *, quiet: bool) -> dict[str, object]:
    from deployments.cli.clients import running_stack
    from deployments.cli.partner import progress_bar
    from deployments.cli.stack import show_services, start_progress
    from deployments.demo import Demo
    from deployments.stack import control

    state = StackState.default()
    with ExitStack() as until_the_end:
        with start_progress(quiet=quiet) as progress:
            facts = until_the_end.enter_context(control.running_stack(state, progress))
        if not quiet:
            show_services(facts)
        say = (lambda _text: None) if quiet else click.echo
        return Demo(running_stack(), seed, say, partial(progress_bar, quiet=quiet)).run()
