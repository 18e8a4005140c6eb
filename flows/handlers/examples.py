"""The test family: small handlers that show and exercise the engine."""

import json
import random
import time
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from domain.rules.outcomes import RESULT_BYTES
from flows.handlers.context import Context
from flows.handlers.errors import HandlerError, InvalidInput
from flows.handlers.registry import handler

SUMMARY_BYTES = 500  # of what hello_summary says beside the greetings


class EchoParams(BaseModel):
    """Anything at all."""

    model_config = ConfigDict(extra="allow")


class EchoResult(BaseModel):
    echoed_params: dict[str, Any]


@handler("echo", pool="light", timeout_seconds=60, example=EchoResult(echoed_params={"message": "hello"}))
def echo(params: EchoParams, context: Context) -> EchoResult:
    """Return the parameters as they came."""
    return EchoResult(echoed_params=params.model_extra or {})


class HelloParams(BaseModel):
    n: int = Field(default=1, ge=1, description="Number of the task that speaks")
    reply_to: int | None = Field(default=None, ge=1, description="Number of the task that is answered")
    message: str = Field(default="Hello", max_length=200)


class HelloResult(BaseModel):
    message: str


@handler("hello_world", pool="light", timeout_seconds=60, example=HelloResult(message="Hello from task_1!"))
def hello_world(params: HelloParams, context: Context) -> HelloResult:
    """Greet as one numbered task, or greet another one by its number."""
    return HelloResult(message=_said(params.message, params.n, params.reply_to))


def _said(message: str, number: int, reply_to: int | None) -> str:
    return f"{message} from task_{number}!" if reply_to is None else f"{message} task_{reply_to} from task_{number}!"


class HelloPlanParams(BaseModel):
    n: int = Field(ge=1, le=10_000, description="How many greetings each stage makes")
    message: str = Field(default="Hello", max_length=200)


class HelloPair(BaseModel):
    first: int
    second: int


class HelloPlanResult(BaseModel):
    started_at: float
    tasks: list[HelloPair]


@handler(
    "hello_plan",
    pool="light",
    timeout_seconds=60,
    example=HelloPlanResult(started_at=0.0, tasks=[HelloPair(first=1, second=3), HelloPair(first=2, second=4)]),
)
def hello_plan(params: HelloPlanParams, context: Context) -> HelloPlanResult:
    """Number the greetings: stage one is 1…n, stage two, which replies, is n+1…2n.

    The summary returns all of them: more than a run may return is refused here, before anybody greets.
    """
    pairs = [HelloPair(first=number, second=params.n + number) for number in range(1, params.n + 1)]
    said = [_said(params.message, pair.first, None) for pair in pairs]
    said += [_said(params.message, pair.second, pair.first) for pair in pairs]
    size = SUMMARY_BYTES + len(json.dumps(said, separators=(",", ":")))
    if size > RESULT_BYTES:
        raise InvalidInput(
            f"All that {params.n:,} greetings of this message say has {size:,} bytes of JSON; a run returns at most "
            f"{RESULT_BYTES:,}. Choose a smaller `n`, or a shorter `message`."
        )
    return HelloPlanResult(started_at=time.time(), tasks=pairs)


class HelloSummaryParams(BaseModel):
    started_at: float
    requested: int
    hellos: list[HelloResult]
    replies: list[HelloResult]


class HelloStatistics(BaseModel):
    total_hellos_requested: int
    hellos_completed_successfully: int
    worlds_replies_generated: int
    success_rate: str


class HelloSummaryResult(BaseModel):
    hello_statistics: HelloStatistics
    stage_1_messages: list[str]
    stage_2_messages: list[str]
    processing_time: str


@handler(
    "hello_summary",
    pool="light",
    timeout_seconds=60,
    example=HelloSummaryResult(
        hello_statistics=HelloStatistics(
            total_hellos_requested=1, hellos_completed_successfully=1, worlds_replies_generated=1, success_rate="100%"
        ),
        stage_1_messages=["Hello from task_1!"],
        stage_2_messages=["Hello task_1 from task_2!"],
        processing_time="1 seconds",
    ),
)
def hello_summary(params: HelloSummaryParams, context: Context) -> HelloSummaryResult:
    """Count what was said, and how much of what was asked for."""
    statistics = HelloStatistics(
        total_hellos_requested=params.requested,
        hellos_completed_successfully=len(params.hellos),
        worlds_replies_generated=len(params.replies),
        success_rate=f"{100 * len(params.replies) / max(params.requested, 1):.0f}%",
    )
    return HelloSummaryResult(
        hello_statistics=statistics,
        stage_1_messages=[hello.message for hello in params.hellos],
        stage_2_messages=[reply.message for reply in params.replies],
        processing_time=f"{max(time.time() - params.started_at, 0):.0f} seconds",
    )


class SleepParams(BaseModel):
    seconds: float = Field(default=1.0, ge=0, le=86_400)


class SleepResult(BaseModel):
    slept_seconds: float


@handler("sleep", pool="light", timeout_seconds=86_400, example=SleepResult(slept_seconds=1.0))
def sleep(params: SleepParams, context: Context) -> SleepResult:
    """Wait, and leave within a moment when asked to stop."""
    started = time.monotonic()
    while not context.stop_event.wait(min(0.5, max(0.0, params.seconds - (time.monotonic() - started)))):
        elapsed = time.monotonic() - started
        context.progress(elapsed / params.seconds if params.seconds else 1.0, "sleeping")
        if elapsed >= params.seconds:
            return SleepResult(slept_seconds=elapsed)
    context.raise_if_stopping()
    raise AssertionError("the wait ended without a stop")


class FailParams(BaseModel):
    message: str = Field(default="This task always fails.", max_length=500)
    partner_fault: bool = Field(default=False, description="Fail as if the submitted data were wrong: never retried")


class FailResult(BaseModel):
    """Never returned."""


@handler("fail", pool="light", timeout_seconds=60, example=FailResult())
def fail(params: FailParams, context: Context) -> FailResult:
    """Fail, always."""
    raise (InvalidInput if params.partner_fault else HandlerError)(params.message)


class FlakyParams(BaseModel):
    model_config = ConfigDict(extra="allow")

    failure_rate: float = Field(default=0.2, ge=0, le=1)
    seed: int | None = Field(default=None, description="The same seed fails on the same tries of the same node")


@handler("flaky_echo", pool="light", timeout_seconds=60, example=EchoResult(echoed_params={"message": "hello"}))
def flaky_echo(params: FlakyParams, context: Context) -> EchoResult:
    """Echo the parameters, failing now and then."""
    place = None if params.seed is None else f"{params.seed}|{context.node_id}|{context.item_key}|{context.try_number}"
    dice = random.Random(place)  # noqa: S311 - dice, not secrets
    if dice.random() < params.failure_rate:
        raise HandlerError(f"Failed on purpose (rate {params.failure_rate}, try {context.try_number}).")
    return EchoResult(echoed_params=params.model_extra or {})


class SizeCheckParams(BaseModel):
    size_mb: float = Field(ge=0)
    threshold_mb: float = Field(default=100, gt=0)


class SizeCheckResult(BaseModel):
    size_mb: float
    is_large: bool


@handler("size_check", pool="light", timeout_seconds=60, example=SizeCheckResult(size_mb=10, is_large=False))
def size_check(params: SizeCheckParams, context: Context) -> SizeCheckResult:
    """Compare a size with a threshold."""
    return SizeCheckResult(size_mb=params.size_mb, is_large=params.size_mb > params.threshold_mb)


class ChunkParams(BaseModel):
    chunk: list[Any] = Field(default_factory=list)
    seconds_per_element: float = Field(default=0.0, ge=0, le=60)


class ChunkResult(BaseModel):
    processed: int


@handler("chunk_processor", pool="light", timeout_seconds=3600, example=ChunkResult(processed=3))
def chunk_processor(params: ChunkParams, context: Context) -> ChunkResult:
    """Pretend to work through a chunk, element by element."""
    for number, _ in enumerate(params.chunk):
        context.raise_if_stopping()
        time.sleep(params.seconds_per_element)
        context.progress((number + 1) / len(params.chunk), f"{number + 1} of {len(params.chunk)}")
    return ChunkResult(processed=len(params.chunk))


class MultiPhaseParams(BaseModel):
    phases: int = Field(default=3, ge=1, le=100)
    seconds_per_phase: float = Field(default=1.0, ge=0, le=3600)


class MultiPhaseResult(BaseModel):
    phases_run: list[int] = Field(description="Phases that ran in this try; earlier ones came from the checkpoint")
    resumed_at: int

    @model_validator(mode="after")
    def _phases_follow_the_checkpoint(self) -> "MultiPhaseResult":
        if self.phases_run and self.phases_run[0] != self.resumed_at:
            raise ValueError("phases_run starts where the checkpoint ended")
        return self


@handler(
    "multi_phase", pool="light", timeout_seconds=86_400, example=MultiPhaseResult(phases_run=[0, 1, 2], resumed_at=0)
)
def multi_phase(params: MultiPhaseParams, context: Context) -> MultiPhaseResult:
    """Work in phases, saving each, and resume at the first unsaved one."""
    saved = context.checkpoint.load() or {"next_phase": 0}
    resumed_at = int(str(saved["next_phase"]))
    phases_run = []
    for phase in range(resumed_at, params.phases):
        context.stop_event.wait(params.seconds_per_phase)
        context.raise_if_stopping()
        phases_run.append(phase)
        context.checkpoint.save({"next_phase": phase + 1})
        context.progress((phase + 1) / params.phases, f"phase {phase + 1} of {params.phases}")
    return MultiPhaseResult(phases_run=phases_run, resumed_at=resumed_at)
