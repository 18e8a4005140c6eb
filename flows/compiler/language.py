"""The language as tables: every field of every kind of node, with its kind and what it is for.

The shape check reads these tables, the editor schema is generated from them. What a table cannot say is a law in
`checks/`.
"""

import re

from flows.compiler.branch_tests import BadTest, parse_test
from flows.compiler.faults import excerpt
from flows.compiler.inputs import TYPES
from flows.compiler.kinds import (
    ANYTHING,
    BOOLEAN,
    OPEN_MAPPING,
    TEXT,
    Field,
    Fields,
    Kind,
    either,
    list_of,
    mapping,
    named,
    number,
    one_of,
    text,
    with_code,
)
from flows.compiler.patterns import BadPattern, compile_pattern
from flows.compiler.resources import RESOURCES
from flows.pools import POOLS

# Names a node may give its pool. The old queue names stay understood; None means the handler's own pool.
POOL_NAMES: dict[str, str | None] = {
    **{name: name for name in POOLS},
    **{old: pool.name for pool in POOLS.values() for old in pool.old_names},
    "dag-worker-tasks": None,
}

WHOLE_FROM_ONE = number("a whole number from 1", minimum=1, whole=True)
POSITIVE = number("a number above zero", above=0)
SECONDS = number("a number of seconds above zero", above=0, maximum=31_536_000, code="bad-timeout")
DELAY = number("a number of seconds from 0", minimum=0, maximum=31_536_000, code="bad-retry")
VERSION = either(
    "a whole number or text",
    number("a whole number", whole=True),
    TEXT,
    hint="quote a version with a point in it, so that 1.10 stays 1.10",
)
IDENTITY = with_code(text("lower-case letters, digits and _"), "bad-workflow-id")
NODE_NAME = text("the id of a node")
TARGETS = either("the id of a node, or a list of ids", NODE_NAME, list_of(NODE_NAME, "a list of node ids"))
POOL = one_of(tuple(POOL_NAMES), "a queue", code="unknown-queue")
_CONDITION_HINT = 'write it as text: "{{ nodes.a.output.b }} > 3"'
CONDITION = either("an expression", TEXT, BOOLEAN, code="bad-condition", hint=_CONDITION_HINT)


def _tolerance_law(value: int | str) -> tuple[str, str] | None:
    if isinstance(value, str):
        found = re.fullmatch(r"(\d{1,3}(?:\.\d{1,6})?)%", value)
        fine = bool(found) and float(found.group(1) if found else 0) <= 100
    else:
        fine = value >= 0
    hint = 'write a count, such as 3, or a percentage up to "100%"'
    return None if fine else (f"{excerpt(value)} is neither a count nor a percentage", hint)


TOLERANCE = Kind(
    "a count or a percentage",
    (int, str),
    {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": r"^\d{1,3}(\.\d+)?%$"}]},
    _tolerance_law,
    wrong_code="bad-tolerance",
    bad_code="bad-tolerance",
    hint='write a count, such as 3, or a percentage up to "100%"',
)

RETRY = mapping(
    {
        "max_attempts": Field(
            number("a whole number from 0 to 100", minimum=0, maximum=100, whole=True, code="bad-retry"),
            "How many times to try again: 5 means six tries, 0 none. Default 3",
        ),
        "backoff": Field(
            one_of(("fixed", "linear", "exponential"), "a backoff", code="bad-retry", wrong="bad-retry"),
            "How the wait grows from one retry to the next. Default exponential",
        ),
        "initial_delay_seconds": Field(DELAY, "The wait before the first retry. Default 1"),
        "max_delay_seconds": Field(DELAY, "No wait is longer than this. Default 300"),
        "jitter": Field(
            with_code(BOOLEAN, "bad-retry"), "Spread the waits at random, so that many do not retry at once"
        ),
        "delays_seconds": Field(
            list_of(DELAY, "a list of seconds", code="bad-retry", not_empty=True),
            "The waits themselves, instead of a backoff; the last one repeats",
        ),
    },
    "a mapping such as {max_attempts: 3}",
    code="bad-retry",
    hint="write retry: {max_attempts: 3}",
)

_TYPE_NAMES = tuple(TYPES)


def _pattern_law(value: str) -> tuple[str, str] | None:
    try:
        compile_pattern(value)
    except BadPattern as error:
        message = f"{excerpt(value)} is not a regular expression that can be matched: {error}"
        return message, "write one such as ^EPSG:[0-9]+$: classes, groups, | and repeats"
    return None


_LENGTH = number("a whole number from 0", minimum=0, whole=True)
_BOUND_FIELDS: dict[str, Field] = {
    "enum": Field(list_of(ANYTHING, "a list of values", not_empty=True), "The only values allowed"),
    "pattern": Field(text("a regular expression", law=_pattern_law), "A regular expression found in the value"),
    "minimum": Field(number("a number"), "The least value"),
    "maximum": Field(number("a number"), "The greatest value"),
    "min_length": Field(_LENGTH, "The least number of characters or elements"),
    "max_length": Field(_LENGTH, "The greatest number of characters or elements"),
}
_INPUT_TYPE = Field(one_of(_TYPE_NAMES, "a type of input"), f"One of {', '.join(_TYPE_NAMES)}", required=True)
_ELEMENT = mapping({"type": _INPUT_TYPE, **_BOUND_FIELDS}, "a mapping such as {type: string}")
INPUT = mapping(
    {
        "type": _INPUT_TYPE,
        "required": Field(BOOLEAN, "Whether a submission must give it. Default false"),
        "default": Field(ANYTHING, "The value where none is given"),
        **_BOUND_FIELDS,
        "items": Field(_ELEMENT, "What each element of an array must be"),
        "description": Field(TEXT, "What it means, for the form"),
    },
    "a mapping such as {type: string}",
)
INPUTS = named(INPUT, "a mapping of inputs")

# --- nodes ---

_TYPE = Field(
    one_of(("start", "end", "task", "conditional", "fan_out", "fan_in", "workflow"), "a type of node"),
    "start, end, task, conditional, fan_out, fan_in or workflow; a node with a handler needs none",
)
_NEXT = Field(TARGETS, "The node or nodes that follow")
_DEPENDS_ON = Field(
    either(
        "the id of a node, a list of ids, or {all_of: […], any_of: […]}",
        NODE_NAME,
        list_of(NODE_NAME, "a list of node ids"),
        mapping(
            {
                "all_of": Field(TARGETS, "All of these ended and at least one completed"),
                "any_of": Field(TARGETS, "At least one of these completed"),
            },
            "a mapping of all_of and any_of",
        ),
    ),
    "Nodes that come before, beside those that name this one as next",
)
_WHEN = Field(CONDITION, "The node is skipped where this is false")
_ON_FAILURE = Field(
    one_of(("fail", "continue"), "an answer to failure"),
    "`continue`: its failure does not fail the run, and successors see its status and error. Default `fail`",
)
_TRIES: Fields = {
    "timeout_seconds": Field(SECONDS, "The longest one try may take. Default the handler's, else 3600"),
    "dispatch_timeout_seconds": Field(SECONDS, "The longest wait for a worker. Default none while its pool is served"),
    "retry": Field(RETRY, "How failed tries are repeated; fields left out come from the workflow's own `retry`"),
    "priority": Field(
        one_of(("low", "normal", "high"), "a priority"),
        "The queue of its child runs, no higher than its platform may ask for. Default the run's own",
    ),
    "version": Field(VERSION, "Recorded in the run's stage snapshot"),
    "args": Field(ANYTHING, "Recorded in the run's stage snapshot"),
}
_HANDLER_RUN: Fields = {
    "handler": Field(TEXT, "The name of the handler that does the work", required=True),
    "params": Field(OPEN_MAPPING, "The handler's parameters; values may be templates"),
    "queue": Field(POOL, "The pool that runs it. Default the handler's own"),
    "pool": Field(POOL, "The same as queue"),
    **_TRIES,
    "resources": Field(RESOURCES, "What a try needs: given to its child run, and held against the size of hosts"),
}
_WORKFLOW_RUN: Fields = {
    "workflow": Field(TEXT, "The workflow_id of the workflow to run", required=True),
    "inputs": Field(OPEN_MAPPING, "Its inputs; values may be templates"),
    **_TRIES,
}
_CHILD = "a mapping with a handler or a workflow"
CHILD_TASK = mapping({"type": Field(one_of(("task",), "what a child can be"), "task"), **_HANDLER_RUN}, _CHILD)
CHILD_WORKFLOW = mapping(
    {"type": Field(one_of(("workflow",), "what a child can be"), "workflow"), **_WORKFLOW_RUN}, _CHILD
)


def _branch_test_law(value: str) -> tuple[str, str] | None:
    try:
        parse_test(value)
    except BadTest as error:
        return f"not a test of the field: {error}", "write operators and literals: < 100, >= 1 and < 5, in [1, 2]"
    return None


BRANCH_TEST = text("a test of the field", law=_branch_test_law, wrong_code="bad-condition", bad_code="bad-condition")

_BRANCH = mapping(
    {
        "condition": Field(BRANCH_TEST, "A test of the field: < 100, >= 100 and < 500, in [1, 2]"),
        "default": Field(BOOLEAN, "true: taken where no other branch holds"),
        "next": Field(TARGETS, "Where to go", required=True),
    },
    'a mapping such as {condition: "< 100", next: x}',
)


NODE_FIELDS: dict[str, Fields] = {
    "start": {"type": _TYPE, "next": _NEXT},
    "end": {"type": _TYPE, "depends_on": _DEPENDS_ON},
    "task": {
        "type": _TYPE,
        **_HANDLER_RUN,
        "when": _WHEN,
        "on_failure": _ON_FAILURE,
        "depends_on": _DEPENDS_ON,
        "next": _NEXT,
    },
    "conditional": {
        "type": _TYPE,
        "condition": Field(CONDITION, "One expression; true goes to on_true, false to on_false"),
        "on_true": Field(TARGETS, "Where to go when the condition holds"),
        "on_false": Field(TARGETS, "Where to go when it does not"),
        "condition_field": Field(CONDITION, "One expression whose value the branches test"),
        "branches": Field(list_of(_BRANCH, "a list of branches", not_empty=True), "The first that holds is taken"),
        "depends_on": _DEPENDS_ON,
    },
    "fan_out": {
        "type": _TYPE,
        "source": Field(
            either("a list, or one {{ expression }} that gives a list", TEXT, list_of(ANYTHING, "a list")),
            "A list, or one {{ expression }} that gives one; one child is made for each element",
            required=True,
        ),
        "item_key": Field(TEXT, "A template for the stable name of a child. Default its index"),
        "max_concurrency": Field(WHOLE_FROM_ONE, "Never more children at once than this"),
        "tolerated_failures": Field(TOLERANCE, "A count or a percentage of children that may fail. Default 0"),
        "batch_size": Field(WHOLE_FROM_ONE, "Children that share one task run, which gets them as `items`"),
        "shards": Field(WHOLE_FROM_ONE, "At most this many worker processes"),
        "task": Field(CHILD_TASK, "What each child runs", required=True),
        "when": _WHEN,
        "on_failure": _ON_FAILURE,
        "depends_on": _DEPENDS_ON,
        "next": _NEXT,
    },
    "fan_in": {
        "type": _TYPE,
        "aggregation": Field(
            one_of(("collect", "concat", "sum", "first", "last"), "an aggregation"),
            "What becomes of the children's outputs. Default collect",
        ),
        "field": Field(TEXT, "The one field that sum and concat read"),
        "on_failure": _ON_FAILURE,
        "depends_on": _DEPENDS_ON,
        "next": _NEXT,
    },
    "workflow": {
        "type": _TYPE,
        **_WORKFLOW_RUN,
        "when": _WHEN,
        "on_failure": _ON_FAILURE,
        "depends_on": _DEPENDS_ON,
        "next": _NEXT,
    },
}

# A fan-out whose child names a workflow. Which of the two tables holds is told by that key alone.
FAN_OUT_OF_WORKFLOWS: Fields = {
    **NODE_FIELDS["fan_out"],
    "task": Field(CHILD_WORKFLOW, "What each child runs", required=True),
}

_NAMES_LIST = list_of(TEXT, "a list of names", not_empty=True)
ACCEPTS = mapping(
    {
        "data_type": Field(_NAMES_LIST, "The data types it serves, such as [raster]", required=True),
        "operation": Field(_NAMES_LIST, "The operations it serves, such as [ingest]", required=True),
    },
    "a mapping such as {data_type: [raster], operation: [ingest]}",
)
OUTPUTS = named(ANYTHING, "a mapping of outputs")

# `nodes` is checked node by node, because what a node may say depends on its type.
WORKFLOW_FIELDS: Fields = {
    "workflow_id": Field(IDENTITY, "Lower snake case, unique, and the file's stem", required=True),
    "name": Field(TEXT, "What people call it. Default the workflow_id"),
    "version": Field(VERSION, "A whole number or text; what was published under it never changes", required=True),
    "description": Field(TEXT, "What it promises, for the operator who picks it in a form"),
    "accepts": Field(ACCEPTS, "Which submissions may use it"),
    "type": Field(
        one_of(("offline", "realtime"), "a type of workflow"), "realtime rides the high queue. Default offline"
    ),
    "sla_seconds": Field(POSITIVE, "Breaches are counted; nothing is stopped"),
    "retry": Field(RETRY, "Defaults for every task"),
    "inputs": Field(INPUTS, "What a submission may or must give"),
    "nodes": Field(OPEN_MAPPING, "What runs, by id: {start: {type: start, next: …}, …}", required=True),
    "outputs": Field(OUTPUTS, "The run's result: templates by name"),
}

STEP = mapping(
    {
        "id": Field(NODE_NAME, "Letters, digits and _; unique in the plan", required=True),
        "workflow": Field(TEXT, "The workflow_id of the workflow to run", required=True),
        "inputs": Field(OPEN_MAPPING, "Its inputs; values may be templates"),
        "depends_on": Field(TARGETS, "Steps that must complete before"),
    },
    "a mapping such as {id: validate, workflow: validate_dataset}",
)
PLAN_FIELDS: Fields = {
    "plan_id": Field(IDENTITY, "Lower snake case, unique, and the file's stem", required=True),
    "name": WORKFLOW_FIELDS["name"],
    "version": Field(VERSION, "Version of the plan. Default 1"),
    "description": WORKFLOW_FIELDS["description"],
    "accepts": WORKFLOW_FIELDS["accepts"],
    "inputs": WORKFLOW_FIELDS["inputs"],
    "steps": Field(
        list_of(STEP, "a list of steps", not_empty=True), "Runs, in sequence or as they depend", required=True
    ),
    "outputs": WORKFLOW_FIELDS["outputs"],
}
