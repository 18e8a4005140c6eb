"""Turns the execution of a process into a submission of the caller's platform. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from pydantic import ValidationError

from domain.contracts.offers import Offer
from domain.contracts.platforms import PlatformRow
from domain.contracts.submissions import SubmissionCreate
from domain.rules.clearance import Identity
from domain.rules.texts import unstorable_places
from gateway import translate
from gateway.errors import InvalidSubmission
from gateway.ogc.descriptions import OUTPUTS, own_names, parameter_names
from gateway.ogc.models import Execute

QUALIFIED = {"value", "mediaType", "encoding", "schema"}
LINK = {"href", "rel", "type", "hreflang", "title"}


def submission(
    asked: Execute, offer: Offer, platform: PlatformRow, caller: Identity, request_id: UUID, key: str | None
) -> SubmissionCreate:
    """Return the submission that these inputs make, or raise every fault of them in one refusal.

    It is worded as the platform would and translated like any other: what its registry row fixes is fixed here too.
    """
    parameters = parameter_names(offer, platform)
    if faults := [*_faults(asked, platform, list(parameters))]:
        raise InvalidSubmission("; ".join(faults) + ".", faults=faults)
    given = {name: unwrapped(value) for name, value in asked.inputs.items()}
    said = {
        name: value
        for name in [*platform.refs, platform.version_ref]
        if (value := _given_or_fixed(name, given, platform)) is not None
    }
    fields: dict[str, Any] = {name: given[name] for name in ("source", "priority") if name in given}
    if asked.subscriber is not None:
        fields["callback_url"] = asked.subscriber.success_uri
    try:
        meant = SubmissionCreate(
            request_id=request_id,
            platform_id=platform.platform_id,
            client_id=caller.client_id,
            refs={name: said[name] for name in platform.refs if name in said},
            version_label=said[platform.version_ref],
            data_type=offer.data_type,
            operation=offer.operation,
            parameters={parameters[name]: value for name, value in given.items() if name in parameters},
            **fields,
        )
    except ValidationError as error:
        raise _invalid(error, platform) from error
    return translate.submission(translate.words(meant, platform), platform, caller, request_id, key)


def _given_or_fixed(name: str, given: Mapping[str, Any], platform: PlatformRow) -> Any:
    """Return the value of a platform's own name, as the caller gives it or the registry fixes it."""
    rule = platform.rule(name)
    return given.get(name, rule.default) if rule.constant is None else rule.constant


def unwrapped(value: Any) -> Any:
    """Return an input's value without its wrapping: a qualified value, a bounding box or a link."""
    if not isinstance(value, Mapping):
        return value
    names = set(value)
    if "value" in names and names <= QUALIFIED:
        return value["value"]
    if "href" in names and names <= LINK:
        return value["href"]
    return value["bbox"] if names == {"bbox"} else dict(value)


def _faults(asked: Execute, platform: PlatformRow, parameters: list[str]) -> Iterator[str]:
    own = own_names(platform)
    known = [*own, "source", *parameters, "priority"]
    for name in asked.inputs:
        if name not in known:
            yield f"inputs: {name[:100]!r} is not an input of this process (known are {', '.join(known)})"
    for name in [*(name for name, needed in own.items() if needed), "source"]:
        if asked.inputs.get(name) is None:
            yield f"inputs: {name!r} is missing"
    for place in unstorable_places(asked.inputs):
        yield f"inputs: {place[:100]!r} holds what cannot be kept (NUL, half a letter, infinity)"
    for name in asked.outputs:
        if name not in OUTPUTS:
            yield f"outputs: {name!r} is not an output of this process (known are {', '.join(OUTPUTS)})"
    subscriber = asked.subscriber
    if subscriber and subscriber.failed_uri not in {None, subscriber.success_uri}:
        yield "subscriber: failedUri must be successUri or be left out: one address is told how the job ended"


def _invalid(error: ValidationError, platform: PlatformRow) -> InvalidSubmission:
    """Return the check's faults under the names of inputs."""
    faults = []
    for fault in error.errors(include_url=False, include_input=False):
        place = [str(part) for part in fault["loc"] if part != "refs"]
        name = {"version_label": platform.version_ref, "callback_url": "successUri"}.get(place[0], ".".join(place))
        faults.append(f"{name}: {fault['msg']}")
    return InvalidSubmission("; ".join(faults) + ".", faults=faults)
