"""What a page's form sends: fields, each once, of a size that people type. Checked by the API's own models."""

from typing import Any, TypeVar
from urllib.parse import parse_qsl

from fastapi import Request
from pydantic import BaseModel, ValidationError

from domain.contracts.problems import ProblemError

LONGEST_FORM = 16_000
MOST_FIELDS = 20
Model = TypeVar("Model", bound=BaseModel)


class BadForm(ProblemError):
    code, status, title = "bad-form", 422, "The form cannot be taken as it is"


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a posted form."""
    body = await request.body()
    if len(body) > LONGEST_FORM:
        raise BadForm("It is too long.")
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError as error:
        raise BadForm("It is not a form that this page made.") from error
    return {name: value.replace("\r\n", "\n").strip() for name, value in pairs}


def checked(model: type[Model], **values: Any) -> Model:
    """The values as the model that the API takes, or a sentence about each that does not fit."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise BadForm(" ".join(_sentence(fault) for fault in error.errors())) from error


def _sentence(fault: Any) -> str:
    name = str(fault["loc"][-1] if fault["loc"] else "form").replace("_", " ")
    match fault["type"]:
        case "string_too_short":
            return f"The {name} needs at least {fault['ctx']['min_length']} characters."
        case "string_too_long":
            return f"The {name} may have at most {fault['ctx']['max_length']} characters."
        case "literal_error":
            return f"The {name} has to be one of {fault['ctx']['expected']}."
        case _:
            return f"The {name} is not valid: {fault['msg'].lower()}."
