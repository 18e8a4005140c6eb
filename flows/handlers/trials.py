"""The handler by which the engine is put on trial: it does as it is told, and leaves a mark of every time it ran.

A mark is a blob below `trials/{run}/`, written when a try begins and again when it ends. What ran, when, where, with
which parameters and how often can be read there, whatever became of the process, the run and their records.
"""

import json
import os
import time
from typing import Any
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field

from flows.handlers.context import Context
from flows.handlers.errors import HandlerError, InvalidInput
from flows.handlers.registry import handler


class ScriptedParams(BaseModel):
    """What to do; anything else is noted in the mark."""

    model_config = ConfigDict(extra="allow")

    seconds: float = Field(default=0.0, ge=0, le=3600, description="How long a try takes; a stop ends it early")
    heedless: bool = Field(default=False, description="Take that long whatever happens: a stop is not heard")
    fails: int | None = Field(default=0, ge=0, description="How many tries fail; none given means all of them")
    partner_fault: bool = Field(default=False, description="Fail as if the submitted data were wrong: never retried")
    returns: Any = None
    says: str | None = Field(default=None, max_length=200, description="A line for the log")


class ScriptedResult(BaseModel):
    returns: Any = None


@handler("scripted", pool="light", timeout_seconds=3600, example=ScriptedResult(returns="done"))
def scripted(params: ScriptedParams, context: Context) -> ScriptedResult:
    """Wait, then fail or return as told."""
    if params.says is not None:
        context.logger.info("%s", params.says)
    place = f"trials/{context.run_id}/{uuid4()}.json"
    mark = {
        "node": context.node_id,
        "key": context.item_key,
        "try": context.try_number,
        "pid": os.getpid(),
        "params": params.model_extra,
        "began": time.monotonic(),  # one clock for every process of a machine
    }
    context.storage.runs.write_bytes(place, json.dumps(mark).encode())
    if params.heedless:
        time.sleep(params.seconds)
    else:
        context.stop_event.wait(params.seconds)
        context.raise_if_stopping()
    fails = params.fails is None or context.try_number < params.fails
    mark |= {"ended": time.monotonic(), "failed": fails}
    context.storage.runs.write_bytes(place, json.dumps(mark).encode())
    if fails:
        raise (InvalidInput if params.partner_fault else HandlerError)("failed as asked")
    return ScriptedResult(returns=params.returns)
