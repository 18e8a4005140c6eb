"""What the tests of the scheduler share: small workflows and their schedules."""

from typing import Any

from flows.compiler import (
    Schedule,
    State,
)
from tests.flows.compiler.support import plan_of

DONE = State.COMPLETED
LINE = """
  start: {type: start, next: a}
  a: {handler: echo, params: {x: "{{ inputs.n }}"}, next: b}
  b: {handler: echo, params: {y: "{{ nodes.a.output.echoed_params }}"}, next: end}
  end: {type: end}
"""
NUMBER = "{n: {type: integer, default: 1}}"
DIAMOND = """
  start: {type: start, next: a}
  a: {type: conditional, condition: "{{ inputs.n }} > 1", on_true: big, on_false: [small, both]}
  big: {handler: echo, next: [both, joined]}
  small: {handler: echo, next: joined}
  both: {handler: echo, depends_on: a, next: end}
  joined: {handler: echo, depends_on: {any_of: [big, small]}, next: end}
  end: {type: end}
"""


def fan(extra: str = "", source: str = "[1, 2, 3]", fan_in: str = "", params: str = '{x: "{{ item }}"}') -> str:
    return f"""
  start: {{type: start, next: each}}
  each: {{type: fan_out, source: {source}, {extra} task: {{handler: echo, params: {params}}}, next: all}}
  all: {{type: fan_in, {fan_in} next: end}}
  end: {{type: end}}
"""


def fan_schedule(extra: str = "", **options: Any) -> Schedule:
    schedule = Schedule(plan_of(fan(extra, **options)))
    schedule.begin()
    return schedule
