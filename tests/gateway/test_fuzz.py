"""The documents against the running gateway: no call that can be made of them is answered by a fault of ours.

Schemathesis makes the calls, good and bad; half of them are given ids that exist, so that they get past the first look.
CAIRN_FUZZ_CASES sets how many cases in all: some hundreds here, 11,000 in the long form (`make fuzz`). CAIRN_FUZZ_SEED
sets which: the same seed makes the same cases.
"""

import asyncio
import json
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.core.result import Ok
from schemathesis.openapi.checks import JsonSchemaError
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from benchmarks._servers import served
from gateway.documents import Audience, document
from tests.gateway import world
from tests.gateway.operations import Operation, ids_of, operations, with_target
from tests.gateway.world import Known
from tests.support.platform import KEYS, Platform

CASES = int(os.environ.get("CAIRN_FUZZ_CASES", "500"))
SEED = int(os.environ.get("CAIRN_FUZZ_SEED", "7"))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
UNLIMITED = {
    f"CAIRN_{who}_CALLS_{what}": "1000000" for who in ("CLIENT", "PLATFORM") for what in ("PER_SECOND", "BURST")
}


@dataclass
class Fuzz:
    """One document's operations, asked again and again."""

    url: str
    audience: Audience
    stock: list[Known]
    chance: random.Random
    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def ask(self, described: dict[str, Any], wanted: dict[str, Operation], cases: int) -> None:
        """So many cases of the document, good and bad ones of each operation alike."""
        schema = schemathesis.openapi.from_dict(described, config=SchemathesisConfig())
        found: list[Any] = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
        each = max(2, cases // (2 * len(found)))
        for operation in found:
            ours = wanted[f"{operation.method.upper()} {operation.path}"]
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                self._ask_one(operation, ours, mode, each)

    def _ask_one(self, operation: Any, ours: Operation, mode: GenerationMode, cases: int) -> None:
        @seed(SEED)
        @settings(
            max_examples=cases, deadline=None, database=None, derandomize=False,
            phases=[Phase.generate], suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(operation.as_strategy(generation_mode=mode))
        def one(case: Any) -> None:
            self._send(case, ours)

        try:
            one()
        except schemathesis.errors.InvalidSchema as fault:
            raise AssertionError(str(ours)) from fault
        except Exception as error:
            if type(error).__name__ not in {"Unsatisfiable", "SkipTest", "Skipped"}:
                raise  # an operation that takes nothing has no bad cases

    def _send(self, case: Any, ours: Operation) -> None:
        if self.chance.random() < 0.5:
            lend_ids(case, ours, self.chance.choice(self.stock))
        if may_wait((case.query or {}).get("wait", "no")):
            case.query["wait"] = 0
        for name in set(case.headers or {}) & {"Authorization", "X-API-Key"}:
            del case.headers[name]  # who gets in is tested elsewhere
        headers = {"X-API-Key": f"secret-{ours.owner}"}
        response = case.call(base_url=self.url, headers=headers, timeout=30)
        self.answers[(str(ours), response.status_code)] += 1
        try:
            case.validate_response(response, checks=CHECKS)
        except (Failure, FailureGroup, JsonSchemaError) as fault:
            self.faults.append(f"{ours} {response.status_code} {response.text[:300]} {fault}")


def may_wait(said: Any) -> bool:
    """Whether the gateway might understand this as a time to wait, which is tested elsewhere."""
    try:
        return isinstance(said, list | dict) or float(said) <= 30
    except (TypeError, ValueError):
        return False


def lend_ids(case: Any, ours: Operation, known: Known) -> None:
    """Put ids that exist where the case has any; bodies of submissions get the platform's references."""
    ids = ids_of(known, ours.path)
    for place in (case.path_parameters, case.query):
        for name in set(place or {}) & ids.keys():
            place[name] = ids[name]
    example = ours.example()
    if isinstance(case.body, dict) and example is not None:
        if "request_id" in case.body:
            case.body["request_id"] = known.request_id
        if "source" in example:
            case.body = example | case.body
            case.body |= {name: example[name] for name in ("dataset_id", "resource_id", "version_id", "source")}


@pytest.fixture
async def target() -> AsyncIterator[str]:
    """What operators may reach through the gateway, as its setting."""
    async with with_target() as targets:
        yield json.dumps({name: target.model_dump(mode="json") for name, target in targets.items()})


@pytest.fixture
def gateway_url(platform: Platform, tmp_path: Path, target: str) -> Iterator[str]:
    """The gateway and its domain as processes of their own, over the platform's database."""
    database = platform.domain.database
    domain = {
        "CAIRN_DATABASE_URL": database.url("cairn_app"),
        "CAIRN_PUBLIC_URL": "http://cairn.test",
        "CAIRN_PLAINTEXT_HOSTS": '["cairn.test"]',
        **KEYS,
        "CAIRN_STORAGE_ROOT": str(tmp_path),
        "CAIRN_RELAY_ENABLED": "false",
        "CAIRN_CALLBACKS_ENABLED": "false",
        "CAIRN_OPEN_REQUESTS_PER_PLATFORM": "100000",
    }
    with served("domain.app:create_app", domain) as domain_port:
        gateway = {
            "CAIRN_DATABASE_GATEWAY_URL": database.url("cairn_gateway"),
            "CAIRN_DOMAIN_URL": f"http://127.0.0.1:{domain_port}",
            "CAIRN_SERVING_URL": "http://127.0.0.1:9",
            "CAIRN_SERVICE_TOKEN": "secret-gateway",
            "CAIRN_PROXY_TARGETS": target,
            **UNLIMITED,
        }
        with served("gateway.app:create_app", gateway) as port:
            yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("audience", [Audience.PARTNER, Audience.OPERATOR])
async def test_no_documented_call_is_answered_500(platform: Platform, gateway_url: str, audience: Audience) -> None:
    makers = (world.processed, world.approved, world.failed, world.submitted, world.started)
    stock = [await make(platform, resource_id=f"s{number}") for number, make in enumerate(makers)]
    ours = {str(one): one for one in operations(platform) if one.audience is audience}
    described = document(platform.gateway.app, audience)  # type: ignore[attr-defined]
    fuzz = Fuzz(gateway_url, audience, stock, random.Random(SEED))  # noqa: S311 - a seeded mixture
    share = CASES * len(ours) // len([one for one in operations(platform) if one.audience is not Audience.PROBE])
    await asyncio.to_thread(fuzz.ask, described, ours, share)
    for number, operation in enumerate(ours.values()):
        await _reach(platform, gateway_url, operation, f"x{number}", fuzz)
    reached = {name for name, status in fuzz.answers if 200 <= status < 300}
    cases = sum(fuzz.answers.values())
    print(f"{audience}: {cases} cases, {len(ours)} operations, {len(reached)} reached, {len(fuzz.faults)} faults")  # noqa: T201
    assert fuzz.faults == []
    assert not [found for found in fuzz.answers if found[1] >= 500]
    assert reached == set(ours)
    assert cases >= share * 0.8


async def _reach(platform: Platform, url: str, operation: Operation, name: str, fuzz: Fuzz) -> None:
    """The operation's own example, of something in the state that it needs."""
    known = await operation.needs(platform, resource_id=name)
    arguments = operation.call(ids_of(known, operation.path))
    async with httpx.AsyncClient(base_url=url, headers={"X-API-Key": f"secret-{operation.owner}"}) as caller:
        answer = await caller.request(arguments.pop("method"), arguments.pop("url"), **arguments)
    fuzz.answers[(str(operation), answer.status_code)] += 1
