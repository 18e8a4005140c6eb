"""The workflow compiler: text in, an immutable Plan or positioned faults out; and the scheduler that runs a Plan.

Pure: no Prefect, no network, no GDAL, no database. Handlers come in as a mapping of their declarations.
"""

from flows.compiler.expressions import ExpressionError, render
from flows.compiler.faults import CODES, Fault
from flows.compiler.inputs import Input, InputFault, InputProblem
from flows.compiler.messages import (
    Cancelled,
    Decision,
    Event,
    ExecuteNode,
    Expand,
    Failed,
    Finished,
    Item,
    ItemCompleted,
    ItemFailed,
    NodeCompleted,
    NodeFailed,
    NodeOutcome,
    NodeSkipped,
    NodeStarted,
    RunError,
    Settled,
    Skipped,
    StopRunning,
)
from flows.compiler.pipeline import Compilation, compile_files, compile_text
from flows.compiler.plan import Arm, Choice, FanIn, FanOut, Node, Plan, Resources
from flows.compiler.request_plan import RequestPlan, Step
from flows.compiler.retry import Retry
from flows.compiler.schedule import OutOfTurn, Schedule
from flows.compiler.selection import UnknownNode, following, selected
from flows.compiler.states import TRANSITIONS, State

__all__ = [
    "CODES",
    "TRANSITIONS",
    "Arm",
    "Cancelled",
    "Choice",
    "Compilation",
    "Decision",
    "Event",
    "ExecuteNode",
    "Expand",
    "ExpressionError",
    "Failed",
    "FanIn",
    "FanOut",
    "Fault",
    "Finished",
    "Input",
    "InputFault",
    "InputProblem",
    "Item",
    "ItemCompleted",
    "ItemFailed",
    "Node",
    "NodeCompleted",
    "NodeFailed",
    "NodeOutcome",
    "NodeSkipped",
    "NodeStarted",
    "OutOfTurn",
    "Plan",
    "RequestPlan",
    "Resources",
    "Retry",
    "RunError",
    "Schedule",
    "Settled",
    "Skipped",
    "State",
    "Step",
    "StopRunning",
    "UnknownNode",
    "compile_files",
    "compile_text",
    "following",
    "render",
    "selected",
]
