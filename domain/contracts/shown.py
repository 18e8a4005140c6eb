"""Stored facts as they may be shown to anybody: web addresses in them without what gives access to their files."""

from typing import Annotated, Any

from pydantic import AfterValidator

from domain.rules.secrets import without_secrets

ShownFacts = Annotated[dict[str, Any], AfterValidator(without_secrets)]
ShownText = Annotated[str, AfterValidator(without_secrets)]
ShownValue = Annotated[Any, AfterValidator(without_secrets)]
