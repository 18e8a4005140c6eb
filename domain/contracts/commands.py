"""Commands: done at once, the same when sent again. Each has its parameters and says whether it changed anything."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from domain.contracts.platforms import FieldName, FieldRule, Identifier, SourcePrefix, mapping_faults, own_folder
from domain.contracts.submissions import Priority

AssetId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Share = Annotated[int, Field(ge=1, le=100)]
Word = Annotated[str, Field(min_length=1, max_length=100)]


class LayerWords(BaseModel):
    """What people say about a layer. Text, never markup: readers get it escaped."""

    model_config = ConfigDict(extra="forbid")

    title: str = Field(min_length=1, max_length=300)
    description: str = Field(default="", max_length=5000)
    keywords: list[Word] = Field(default_factory=list, max_length=50)
    attribution: str | None = Field(default=None, max_length=500)
    license: str = Field(default="other", max_length=100, description="SPDX identifier, or `other`")


class PublishMetadata(BaseModel):
    model_config = ConfigDict(extra="forbid")

    asset_id: AssetId
    metadata: LayerWords | None = Field(default=None, description="Kept first; without it, what was kept is published")


class OneAsset(BaseModel):
    model_config = ConfigDict(extra="forbid")

    asset_id: AssetId


class Reindex(BaseModel):
    model_config = ConfigDict(extra="forbid")

    asset_id: AssetId | None = Field(default=None, description="Without it, assets after `after`, so many")
    after: AssetId | None = None
    limit: int = Field(default=100, ge=1, le=500)


class Nothing(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Invalidate(BaseModel):
    model_config = ConfigDict(extra="forbid")

    cache: Literal["all", "platforms", "clients", "assets", "workflows"] = "all"


class RegisterPlatform(BaseModel):
    model_config = ConfigDict(extra="forbid")

    platform_id: Identifier
    display_name: str = Field(min_length=1, max_length=200)
    required_refs: list[Identifier] = Field(min_length=1, max_length=10)
    optional_refs: list[Identifier] = Field(default_factory=list, max_length=10)
    version_ref: Identifier
    field_mapping: dict[FieldName, FieldRule] = Field(
        default_factory=dict, max_length=50, description="Where fields of a submission come from, by our names"
    )
    is_active: bool = True
    approvals_required: int = Field(
        default=1, ge=1, le=10, description="How many people have to approve before a revision is served"
    )
    approval_days: int | None = Field(
        default=None, ge=1, le=3650, description="How long an approval holds that names no end; None: until withdrawn"
    )
    source_prefixes: list[SourcePrefix] | None = Field(
        default=None,
        max_length=20,
        description=(
            "Folders of bronze that its submissions may name, each with its last '/'; `uploads/` and its id where it "
            "is left out, and with an empty list nothing of bronze"
        ),
    )

    share: Share | None = Field(default=None, description="Left out: as it is, or 1")
    priority_cap: Priority | None = Field(default=None, description="Left out: as it is, or `normal`")

    @model_validator(mode="after")
    def _mapping_works(self) -> "RegisterPlatform":
        faults = mapping_faults(self.required_refs, self.optional_refs, self.version_ref, self.field_mapping)
        if faults:
            raise ValueError("; ".join(faults))
        return self

    def row(self) -> dict[str, Any]:
        """The registry row; of each rule only what it says."""
        folders = [own_folder(self.platform_id)] if self.source_prefixes is None else self.source_prefixes
        kept = {name for name in ("share", "priority_cap") if getattr(self, name) is None}
        return self.model_dump(exclude={"field_mapping", "source_prefixes", *kept}) | {
            "source_prefixes": folders,
            "field_mapping": {
                name: rule.model_dump(exclude_defaults=True) for name, rule in self.field_mapping.items()
            },
        }


class WeighPlatform(BaseModel):
    """How a platform stands beside the others. What is left out stays as it is."""

    model_config = ConfigDict(extra="forbid")

    platform_id: Identifier
    share: Share | None = Field(default=None, description="How many runs go in its turn")
    priority_cap: Priority | None = Field(default=None, description="The highest priority that its work may have")


class CommandDone(BaseModel):
    command: str
    changed: bool = Field(description="False where everything was so already")
    details: dict[str, Any] = Field(default_factory=dict)
