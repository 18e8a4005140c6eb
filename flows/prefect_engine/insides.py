"""Every name of Prefect's insides that our code leans on, and what for. Holds names only, and imports nothing.

Prefect promises nothing of names with an underscore, nor of its engines and workers: any release may rename them.
`tests/flows/prefect_engine/test_insides.py` holds the table against our source, so that no use is missing here, and
against releases of Prefect. `Class.attribute` may be what objects have; `function(name)` is a parameter.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

Names = Mapping[str, str]
SUPPORTED = ("3.8.8", "3.9.1")  # what the contract was run on; the first is pinned


@dataclass(frozen=True)
class Inside:
    """A module of Prefect, what is used of it, and why."""

    module: str
    attribute: str
    why: str

    def __str__(self) -> str:
        return f"{self.module}:{self.attribute}" if self.attribute else self.module


FLOW_ENGINE: Names = {
    "": "is imported before runs are forked",
    "_flow_parameters": "parameters of a flow run, as its flow takes them",
    "AsyncFlowRunEngine": "flow runs in their worker's process, sub-workflows",
    "AsyncFlowRunEngine._client": "the client that all flow runs of a process share",
    "AsyncFlowRunEngine._get_flow_run_suspension_request": "what Prefect asks for at each state, never set here",
    "AsyncFlowRunEngine._is_started": "that its client may be used",
    "AsyncFlowRunEngine._raised": "what a sub-workflow raised, for its caller",
    "AsyncFlowRunEngine._telemetry": "the span of a flow run",
    "AsyncFlowRunEngine.begin_run": "counts the run as the server does",
    "AsyncFlowRunEngine.call_flow_fn": "runs the flow's function and records its end",
    "AsyncFlowRunEngine.client": "Prefect's client in a flow run",
    "AsyncFlowRunEngine.create_flow_run": "sub-workflows are always new flow runs",
    "AsyncFlowRunEngine.flow": "the flow",
    "AsyncFlowRunEngine.flow_run": "the flow run",
    "AsyncFlowRunEngine.heartbeat_seconds": "no thread of its own for each flow run",
    "AsyncFlowRunEngine.initialize_run": "no signals: the process is not this flow run's",
    "AsyncFlowRunEngine.is_running": "until it has ended",
    "AsyncFlowRunEngine.logger": "lines of a flow run",
    "AsyncFlowRunEngine.parameters": "parameters of the flow run",
    "AsyncFlowRunEngine.run_context": "what surrounds the flow's function",
    "AsyncFlowRunEngine.set_state": "outages are waited out; a cancelled run ends so",
    "AsyncFlowRunEngine.setup_flow_run_suspension_request": "no websocket for each flow run",
    "AsyncFlowRunEngine.setup_run_context": "one client and result store for all",
    "AsyncFlowRunEngine.start": "beginning and end of a flow run",
    "AsyncFlowRunEngine.state": "the flow run's state",
}
TASK_ENGINE: Names = {
    "": "is imported before runs are forked",
    "AsyncTaskRunEngine": "task runs that ask for less",
    "AsyncTaskRunEngine._raised": "what a task raised at last",
    "AsyncTaskRunEngine._resolve_parameters": "left out: no parameter is a future",
    "AsyncTaskRunEngine._set_custom_task_run_name": "the name of a task run",
    "AsyncTaskRunEngine._telemetry": "the span of a task run",
    "AsyncTaskRunEngine.begin_run": "Running, told once",
    "AsyncTaskRunEngine.handle_exception": "retries as the task says, else Failed",
    "AsyncTaskRunEngine.initialize_run": "what surrounds a task's function; crashes",
    "AsyncTaskRunEngine.is_running": "until it has ended",
    "AsyncTaskRunEngine.log_finished_message": "no line for what ended well",
    "AsyncTaskRunEngine.parameters": "parameters of the task run",
    "AsyncTaskRunEngine.set_state": "one event instead of three",
    "AsyncTaskRunEngine.start": "beginning and end of a task run; slots of limited tags",
    "AsyncTaskRunEngine.state": "the task run's state",
    "AsyncTaskRunEngine.task": "the task",
    "AsyncTaskRunEngine.task_run": "the task run",
    "AsyncTaskRunEngine.wait_until_ready": "the pause before a retry",
    "run_task_async": "a task run by Prefect's own engine, where that is asked for",
    "run_task_async(parameters)": "parameters of the task run",
    "run_task_async(return_type)": "its state, not what it raised",
}
TASKS: Names = {
    "Task._is_subflow_tracking_task": "a sub-workflow's place in its caller's graph",
    "Task.create_local_run": "a task run without a question to the server",
    "Task.fn": "set in a copy: making a task anew reads its source file",
    "Task.name": "set in a copy",
    "Task.retries": "set in a copy",
    "Task.retry_condition_fn": "set in a copy",
    "Task.retry_delay_seconds": "set in a copy",
    "Task.retry_jitter_factor": "set in a copy",
    "Task.tags": "set in a copy",
    "Task.task_key": "set in a copy",
    "Task.task_run_name": "set in a copy",
}
CONTEXT: Names = {
    "AsyncClientContext": "one client for a process",
    "AsyncClientContext.get_or_create": "the client of the process",
    "FlowRunContext": "what Prefect's code finds around a flow",
    "FlowRunContext.__var__": "events are sent without naming all that surrounds them",
    "FlowRunContext.get": "the flow run around a task run",
    "FlowRunContext(client)": "set for a flow run",
    "FlowRunContext(flow)": "set for a flow run",
    "FlowRunContext(flow_run)": "set for a flow run",
    "FlowRunContext(flow_run_suspension_request)": "set for a flow run",
    "FlowRunContext(parameters)": "set for a flow run",
    "FlowRunContext(persist_result)": "set for a flow run",
    "FlowRunContext(result_store)": "set for a flow run",
    "FlowRunContext(task_runner)": "set for a flow run",
    "SyncClientContext": "one client for a process, for code in threads",
    "SyncClientContext.get_or_create": "the client of the process",
    "TaskRunContext": "events are sent without naming all that surrounds them",
    "TaskRunContext.get": "whether a line is a run's",
    "refresh_global_settings_context": "settings of a fork's own environment",
}
WORKER: Names = {
    "BaseJobConfiguration": "the empty configuration of a run in its worker",
    "BaseWorker": "workers that can be drained",
    "BaseWorker.__init__": "limits and names",
    "BaseWorker._cancel_run": "a run that is cancelled as it begins does no work",
    "BaseWorker._description": "what operators read of the type",
    "BaseWorker._emit_flow_run_submitted_event": "told as by the stock worker",
    "BaseWorker._exit_stack": "closes what a worker holds open",
    "BaseWorker._get_scheduled_flow_runs": "nothing new while draining",
    "BaseWorker._has_successfully_synced": "whether the worker may take runs",
    "BaseWorker._last_polled_time": "healthy through an outage of Prefect",
    "BaseWorker._limit": "how many runs at once",
    "BaseWorker._logger": "lines of a worker",
    "BaseWorker._propose_crashed_state": "a run that could not be begun",
    "BaseWorker._propose_pending_state": "a run is claimed",
    "BaseWorker._release_limit_slot": "the place of a run that has ended",
    "BaseWorker._runs_task_group": "runs are tasks of the worker's loop",
    "BaseWorker._scheduled_task_scopes": "what ends with the worker",
    "BaseWorker._setup_cancellation_observer": "left out: one question for all runs",
    "BaseWorker._submit_run": "a run that cannot be read does not end the worker",
    "BaseWorker._submit_scheduled_flow_runs": "no process, no configuration for each run",
    "BaseWorker._submitting_flow_run_ids": "runs that are just being taken",
    "BaseWorker._sync_and_initialize": "waits for Prefect at the start",
    "BaseWorker._work_pool_name": "the pool that it serves",
    "BaseWorker.client": "Prefect's client in a worker",
    "BaseWorker.get_and_submit_flow_runs": "an outage is waited out",
    "BaseWorker.get_default_base_job_template": "what the type offers",
    "BaseWorker.get_flow_run_logger": "lines of a run that could not be begun",
    "BaseWorker.job_configuration": "the empty configuration",
    "BaseWorker.limiter": "the places for runs",
    "BaseWorker.name": "who sends the beacons",
    "BaseWorker.run": "runs a flow here; knows its process",
    "BaseWorker.setup": "one client for the worker and its runs",
    "BaseWorker.start": "ends drained",
    "BaseWorker.type": "cairn-inline",
    "BaseWorkerResult": "the result that Prefect asks for",
}
TABLE: Mapping[str, Names] = {
    "prefect._flow_run_suspension": {
        "FlowRunSuspensionRequest": "what Prefect asks for at each state",
        "register_flow_run_suspension_request": "without the websocket that watches for it",
    },
    "prefect._internal.metrics": {"": "is imported before runs are forked"},
    "prefect._internal.observers": {"": "is imported before runs are forked"},
    "prefect.blocks.core": {
        "Block._block_type_name": "what operators read of our blocks",
        "Block._block_type_slug": "how blocks are named",
        "Block._event_method_called_resources": "no event for each look at a block",
    },
    "prefect.client.base": {
        "PrefectHttpxAsyncClient": "outages are waited out",
        "PrefectHttpxAsyncClient._send_with_retry": "nothing public sends for all of Prefect's code",
        "PrefectHttpxSyncClient": "outages are waited out",
        "PrefectHttpxSyncClient._send_with_retry": "nothing public sends for all of Prefect's code",
    },
    "prefect.concurrency._leases": {
        "amaintain_concurrency_lease": "a deployment's limit, held while its flow run works",
        "amaintain_concurrency_lease(raise_on_lease_renewal_failure)": "a run whose place is gone ends",
    },
    "prefect.context": CONTEXT,
    "prefect.engine": {"": "runs the flow run of a process of its own"},
    "prefect.events.worker": {
        "": "is imported before runs are forked",
        "EventsWorker": "sends events",
        "EventsWorker.instance": "the one of the process",
        "EventsWorker.send": "sends an event",
        "should_emit_events": "whether anybody takes events",
    },
    "prefect.flow_engine": FLOW_ENGINE,
    "prefect.logging.handlers": {
        "": "is imported before runs are forked",
        "APILogHandler": "our lines are sent, and before the process ends",
    },
    "prefect.logging.loggers": {"flow_run_logger": "lines of a flow run"},
    "prefect.results": {
        "ResultStore": "one for all runs of a flow",
        "get_result_store": "one for all runs of a flow",
    },
    "prefect.server.database.orm_models": {
        "FlowRun": "flow runs of schedules, inserted in bulk",
        "FlowRun.__mapper__": "flow runs of schedules, inserted in bulk",
        "FlowRun.state": "passed over by such an insert",
    },
    "prefect.server.utilities.messaging": {
        "Message": "events in Redis, bounded",
        "MessageHandler": "events in Redis, bounded",
    },
    "prefect.task_engine": TASK_ENGINE,
    "prefect.tasks": TASKS,
    "prefect.utilities.callables": {"parameter_schema": "the form of a flow"},
    "prefect.workers.base": WORKER,
    "prefect.workers.process": {
        "ProcessJobConfiguration": "runs that are forked",
        "ProcessJobConfiguration.command": "the launcher, where the worker has a zygote",
        "ProcessJobConfiguration.env": "what a run is told of where it runs",
        "ProcessJobConfiguration.prepare_for_flow_run": "where both are decided",
        "ProcessWorker": "runs that are forked",
        "ProcessWorkerResult": "runs that are forked",
    },
    "prefect_azure.credentials": {
        "AzureBlobStorageCredentials": "zones in an account",
        "AzureBlobStorageCredentials(account_url)": "zones in an account",
        "AzureBlobStorageCredentials.aload": "zones in an account",
    },
    "prefect_redis": {
        "messaging": "events in Redis, bounded",
        "messaging.Consumer": "events in Redis, bounded",
        "messaging.Publisher": "events in Redis, bounded",
        "messaging.RedisMessagingConsumerSettings": "events in Redis, bounded",
        "messaging.RedisStreamsMessage": "events in Redis, bounded",
    },
    "prefect_redis.client": {"get_async_redis_client": "events in Redis, bounded"},
    "prefect_redis.lease_storage": {"": "leases of slots in Redis"},
    "prefect_redis.messaging": {
        "": "events in Redis",
        "break_topic": "events in Redis, bounded",
        "ephemeral_subscription": "events in Redis, bounded",
    },
    "prefect_redis.ordering": {"": "order of events in Redis"},
}


def insides() -> Iterator[Inside]:
    """The table, name by name."""
    for module, names in TABLE.items():
        for attribute, why in names.items():
            yield Inside(module, attribute, why)
