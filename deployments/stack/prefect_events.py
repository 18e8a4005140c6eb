"""How Prefect's server handles events: through Redis, in batches, bounded. The same in any installation.

Prefect reads one message at a time by default, each with three questions to Redis, and falls behind in a rush.
"""

from typing import Final

EVENT_SETTINGS: Final = {
    "PREFECT_MESSAGING_BROKER": "deployments.event_stream",
    "PREFECT_MESSAGING_CACHE": "prefect_redis.messaging",
    "PREFECT_SERVER_EVENTS_CAUSAL_ORDERING": "prefect_redis.ordering",
    "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect_redis.lease_storage",
    "PREFECT_REDIS_MESSAGING_PUBLISHER_BATCH_SIZE": "50",
    "PREFECT_REDIS_MESSAGING_PUBLISHER_PUBLISH_EVERY": "1",
    "PREFECT_REDIS_MESSAGING_CONSUMER_MIN_IDLE_TIME": "60",
    "PREFECT_REDIS_MESSAGING_CONSUMER_TRIM_EVERY": "10",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_READ_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_FLUSH_INTERVAL": "2",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TRIGGERS_READ_BATCH_SIZE": "100",
}
