"""A platform's registry row: how its own words for a submission map to ours. Data, never code."""

from itertools import combinations
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

Identifier = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
Path = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,62}(\.[A-Za-z_][A-Za-z0-9_-]{0,62}){0,4}$")]
FieldName = Annotated[str, Field(pattern=r"^(parameters\.)?[a-z][a-z0-9_]{0,62}$")]
SourcePrefix = Annotated[str, Field(max_length=300, pattern=r"^([A-Za-z0-9_][A-Za-z0-9._ +=@-]{0,199}/)+$")]
Plain = str | int | float | bool

OURS = ("data_type", "operation", "source", "parameters", "callback_url", "priority")
NEEDED = ("data_type", "operation", "source")
PARAMETER = "parameters."


def own_folder(platform_id: str) -> str:
    """Return the folder that a platform submits from unless an operator has named others."""
    return f"uploads/{platform_id}/"


class FieldRule(BaseModel):
    """Where one field of ours comes from. Without a rule it stands in the body under its own name."""

    model_config = ConfigDict(extra="forbid")

    path: Path | None = Field(default=None, description="Where the platform writes it, as in `item.id`")
    constant: Plain | None = Field(default=None, description="Always this; the platform cannot say another")
    default: Plain | None = Field(default=None, description="This where the platform does not say it")
    values: dict[str, Plain] = Field(
        default_factory=dict, max_length=50, description="The platform's words for our values; others are refused"
    )
    infer: bool = Field(
        default=False, description="For `data_type`: a media type is understood, else the source's extension decides"
    )

    @model_validator(mode="after")
    def _one_way(self) -> "FieldRule":
        if self.constant is not None and (self.path or self.default is not None or self.values or self.infer):
            raise ValueError("a constant is read nowhere: give it no path, default, values or infer")
        if len(set(map(str, self.values.values()))) < len(self.values):
            raise ValueError("two of the platform's words may not mean the same value: neither could be said back")
        return self


def field_names(required_refs: list[str], optional_refs: list[str], version_ref: str) -> list[str]:
    """Every field that a submission of the platform may have."""
    return [*required_refs, *optional_refs, version_ref, *OURS]


def mapping_faults(
    required_refs: list[str], optional_refs: list[str], version_ref: str, mapping: dict[str, FieldRule]
) -> list[str]:
    """One sentence for each rule that could not work."""
    known = field_names(required_refs, optional_refs, version_ref)
    faults = [f"{name!r} is given twice" for name in sorted({name for name in known if known.count(name) > 1})]
    faults += [
        f"{name!r} is no field of a submission (known are {', '.join(known)}, and parameters.NAME)"
        for name in mapping
        if name not in known and not name.startswith(PARAMETER)
    ]
    faults += [
        f"{name!r} cannot be inferred, only 'data_type'"
        for name, rule in mapping.items()
        if rule.infer and name != "data_type"
    ]
    faults += [
        f"{name!r} needs a path of its own, a constant or nothing but a default"
        for name, rule in mapping.items()
        if name.startswith(PARAMETER) and rule.values and rule.path in {None, name}
    ]
    # A single parameter without a place of its own stands among the others.
    placed = [name for name in dict.fromkeys([*known, *mapping]) if name in known or path_of(name, mapping) != name]
    for one, other in combinations(placed, 2):
        if place := _shared_place(one, other, mapping):
            faults.append(f"{one!r} and {other!r} are read at the same place, {place!r}")
    return faults


def _shared_place(one: str, other: str, mapping: dict[str, FieldRule]) -> str | None:
    """Return the place of one field that lies within the other's place."""
    first, second = path_of(one, mapping), path_of(other, mapping)
    if first is None or second is None:
        return None
    if first == second or second.startswith(f"{first}."):
        return first
    return second if first.startswith(f"{second}.") else None


def path_of(name: str, mapping: dict[str, FieldRule]) -> str | None:
    """Where the platform writes this field; None where it is a constant."""
    rule = mapping.get(name)
    if rule is None:
        return name
    return None if rule.constant is not None else rule.path or name


class PlatformRow(BaseModel):
    """What of a registry row the door needs to understand a platform."""

    model_config = ConfigDict(frozen=True)

    platform_id: str
    required_refs: list[str]
    optional_refs: list[str]
    version_ref: str
    field_mapping: dict[str, FieldRule] = Field(default_factory=dict)

    @property
    def refs(self) -> list[str]:
        return [*self.required_refs, *self.optional_refs]

    def rule(self, name: str) -> FieldRule:
        return self.field_mapping.get(name, PLAIN_RULE)

    def path(self, name: str) -> str | None:
        return path_of(name, self.field_mapping)


PLAIN_RULE = FieldRule()
