"""The file that `workflow new` writes: small, commented, and without a fault."""

import re

_STARTER = """\
# Promises: say here, in a sentence, what a run of this workflow leaves behind, and what it refuses.
workflow_id: {name}            # equals the name of this file
name: {title}
version: 1                     # a published version never changes: count it up when you change anything
description: Say what it does, for the operator who picks it in a form.
# accepts: {{data_type: [raster], operation: [ingest]}}   # uncomment to serve submissions

inputs:
  message: {{type: string, default: "hello", max_length: 200, description: "What to echo"}}

nodes:
  start: {{type: start, next: first}}

  first:
    handler: echo              # `cairn workflow schema` lists what a node may say
    params:
      message: "{{{{ inputs.message }}}}"        # exactly one expression keeps its type
      greeting: "Run {{{{ run.id }}}} says hi"   # anything else is text
    timeout_seconds: 60
    retry: {{max_attempts: 2}}   # two retries: three tries in all
    next: end

  end: {{type: end}}

outputs:                       # what the run returns; the partner may see it
  echoed: "{{{{ nodes.first.output.echoed_params }}}}"
"""


class BadName(ValueError):
    """The name cannot be a workflow_id."""


def starter(name: str) -> str:
    """The text of a new workflow of this name."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,62}", name):
        raise BadName(
            f"{name!r} is not a workflow_id: lower-case letters, digits and _, a letter first, at most 63 in all"
        )
    return _STARTER.format(name=name, title=name.replace("_", " ").capitalize())
