"""`cairn`: the one command. Verbs are loaded when they are used, so that `cairn --help` answers at once."""

import importlib
import sys
from collections.abc import Mapping
from typing import Any

import click

# verb -> (module, one line of help). The line stands here so that listing verbs loads none of them.
VERBS: Mapping[str, tuple[str, str]] = {
    "up": ("stack", "Start the embedded stack."),
    "down": ("stack", "Stop the embedded stack."),
    "status": ("stack", "Show what runs where, or how a request stands."),
    "certs": ("certs", "Show and renew the certificates of a stack that other hosts reach."),
    "doctor": ("doctor", "Look whether everything is there that is needed."),
    "demo": ("demo", "Send one raster all the way through, and check what comes out."),
    "deploy": ("deploy", "Roll out workflows to Prefect."),
    "sample": ("sample", "Write a file to try things with."),
    "upload": ("partner", "Put a file where a partner submits from."),
    "submit": ("partner", "Submit a file as a partner."),
    "approve": ("staff", "Approve what a request produced."),
    "reject": ("staff", "Reject what a request produced."),
    "callbacks": ("callbacks", "List callbacks to partners, and send one again."),
    "clients": ("credentials", "List, create, rotate and revoke credentials."),
    "runs": ("orders", "List runs by their status."),
    "cancel": ("orders", "Stop a request."),
    "rerun": ("orders", "Do a finished run again."),
    "pause": ("orders", "Dispatch nothing new."),
    "resume": ("orders", "Go on after a pause."),
    "limit": ("orders", "Have at most so many runs in flight."),
    "unpublish": ("assets", "Stop serving a version."),
    "withdraw": ("assets", "Take back your approval of a version."),
    "clearance": ("assets", "Decide who may read an asset."),
    "assets": ("assets", "List, show, expose and delete assets."),
    "platforms": ("assets", "List the partner systems."),
    "audit": ("audit", "Show who did what, and verify that the record was not touched."),
    "leftovers": ("leftovers", "Show what ended requests left over, and what no row knows of."),
    "workflow": ("workflow", "Check, draw, simulate and run workflows."),
    "worker": ("worker", "Run a pool's worker, or drain one."),
    "bench": ("bench", "Measure, with a baseline in the same run."),
}


class Verbs(click.Group):
    """A group whose commands are imported when they are named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"deployments.cli.{VERBS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(name, text) for name, (_, text) in VERBS.items()])


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="cairn-platform", message="cairn %(version)s")
def cairn() -> None:
    """Cairn: partners submit geodata, workflows process it, people approve it, and only that is served.

    Exit codes: 0 done, 1 the answer is no, 2 wrong usage or unreachable.
    """


def main() -> Any:
    """The console command. A broken pipe, as of `| head`, is not an error."""
    try:
        return cairn(prog_name="cairn")
    except BrokenPipeError:
        sys.stderr.close()
        return 0
