"""What the domain promises about one asset, as plain steps on plain data: every act is one step, whole or refused.

Racing clients are held against it: what they were answered and what is stored must come from some order of steps.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from domain.rules.clearance import Clearance, Exposure, after_approval
from domain.rules.exports import ExportOrder, Publicity, orders
from domain.rules.lifecycle import Approval, RequestState
from domain.rules.versions import Blocked, Duplicate, NewVersion, Resubmission, VersionFacts, place

Place = tuple[int, int]  # ordinal, revision
ACCEPTED, DUPLICATE, REFUSED, DONE = 202, 200, 409, 200


@dataclass(frozen=True)
class Made:
    """One revision."""

    source: str
    approval: str = "pending_review"
    processing: str = "open"
    decided: bool = False


@dataclass(frozen=True)
class Listed:
    """One version, deleted or not."""

    label: str
    newest: int = 1
    served: int | None = None
    deleted: bool = False


@dataclass(frozen=True)
class Model:
    """The whole asset. Steps return the state after and the status that the caller hears."""

    versions: dict[int, Listed] = field(default_factory=dict)
    revisions: dict[Place, Made] = field(default_factory=dict)
    clearance: Clearance = "uncleared"
    exposure: Exposure = "latest_only"
    out: dict[Place, int] = field(default_factory=dict)  # live exports, by how many their revision had before
    begun: dict[Place, int] = field(default_factory=dict)  # exports that a revision ever had
    ended: frozenset[tuple[Place, int]] = frozenset()  # exports that were committed


Step = Callable[[Model], tuple[Model, int]]


def submit(label: str, source: str) -> Step:
    def step(model: Model) -> tuple[Model, int]:
        facts = [_facts(model, ordinal) for ordinal, version in sorted(model.versions.items()) if not version.deleted]
        match place(label, source, facts, len(model.versions)):
            case NewVersion(ordinal):
                versions = model.versions | {ordinal: Listed(label)}
                return replace(model, versions=versions, revisions=model.revisions | {(ordinal, 1): Made(source)}), 202
            case Resubmission(ordinal, revision, _):
                model = _cancelled(model, ordinal)
                versions = model.versions | {ordinal: replace(model.versions[ordinal], newest=revision)}
                revisions = model.revisions | {(ordinal, revision): Made(source)}
                return replace(model, versions=versions, revisions=revisions), ACCEPTED
            case Duplicate():
                return model, DUPLICATE
            case Blocked():
                return model, REFUSED

    return step


def end(which: Place, processing: str) -> Step:
    """A run commits or fails. Said again, it hears the same."""

    def step(model: Model) -> tuple[Model, int]:
        made = model.revisions[which]
        if made.processing not in {"open", processing}:
            return model, REFUSED
        return _revised(model, which, processing=processing), DONE

    return step


def decide(which: Place, approval: str, level: Clearance) -> Step:
    def step(model: Model) -> tuple[Model, int]:
        ordinal, revision = which
        version, made = model.versions[ordinal], model.revisions[which]
        open_to_decision = made.processing == "completed" and made.approval == "pending_review"
        if version.deleted or version.newest != revision or not open_to_decision:
            return model, REFUSED
        model = _revised(model, which, approval=approval, decided=True)
        if approval == "approved":
            versions = model.versions | {ordinal: replace(version, served=revision)}
            model = replace(model, versions=versions, clearance=after_approval(model.clearance, level))
        return _settled(model), DONE

    return step


def unpublish(which: Place) -> Step:
    def step(model: Model) -> tuple[Model, int]:
        ordinal, revision = which
        version = model.versions[ordinal]
        if version.deleted or version.served != revision:
            return model, REFUSED
        versions = model.versions | {ordinal: replace(version, served=None)}
        model = _revised(replace(model, versions=versions), which, approval="pending_review", decided=True)
        return _settled(model), DONE

    return step


def delete(ordinal: int) -> Step:
    def step(model: Model) -> tuple[Model, int]:
        version = model.versions[ordinal]
        if version.deleted or version.served is not None:
            return model, REFUSED
        model = _cancelled(model, ordinal)
        return replace(model, versions=model.versions | {ordinal: replace(version, deleted=True)}), DONE

    return step


def clear(level: Clearance) -> Step:
    return lambda model: (_settled(replace(model, clearance=level)), DONE)


def expose(exposure: Exposure) -> Step:
    return lambda model: (_settled(replace(model, exposure=exposure)), DONE)


def export(which: Place, number: int) -> Step:
    """An export commits: as often as it likes once it did, and never once it was withdrawn before."""

    def step(model: Model) -> tuple[Model, int]:
        if (which, number) in model.ended:
            return model, DONE
        if model.out.get(which) != number:
            return model, REFUSED
        return replace(model, ended=model.ended | {(which, number)}), DONE

    return step


def _facts(model: Model, ordinal: int) -> VersionFacts:
    version = model.versions[ordinal]
    made = model.revisions[ordinal, version.newest]
    processing = RequestState.PENDING if made.processing == "open" else RequestState(made.processing)
    served = version.served is not None
    approval = Approval(made.approval)
    return VersionFacts(ordinal, version.label, version.newest, approval, processing, made.source, served, made.decided)


def _revised(model: Model, which: Place, **changes: object) -> Model:
    made = replace(model.revisions[which], **changes)  # type: ignore[arg-type]
    return replace(model, revisions=model.revisions | {which: made})


def _cancelled(model: Model, ordinal: int) -> Model:
    which = (ordinal, model.versions[ordinal].newest)
    return _revised(model, which, processing="cancelled") if model.revisions[which].processing == "open" else model


def _settled(model: Model) -> Model:
    served = {ordinal: v.served for ordinal, v in model.versions.items() if v.served is not None and not v.deleted}
    out, begun = dict(model.out), dict(model.begun)
    for which, order in orders(out.keys(), Publicity(model.clearance, model.exposure, False, served)).items():
        if order is ExportOrder.EXPORT:
            out[which] = begun.get(which, 0)
            begun[which] = out[which] + 1
        elif order is ExportOrder.WITHDRAW:
            del out[which]
    return replace(model, out=out, begun=begun)
