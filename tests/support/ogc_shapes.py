"""The shapes of OGC API – Processes, part 1, version 1.0 (OGC 18-062r2), as JSON Schema: what answers are held against.

Written down from the standard's own components. Where it leaves objects open, they are closed here to what it names.
"""

from typing import Any

from jsonschema import Draft202012Validator

Shape = dict[str, Any]


def closed(required: list[str], **properties: Any) -> Shape:
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


TEXT: Shape = {"type": "string"}
MOMENT: Shape = {"type": "string", "format": "date-time"}
ADDRESS: Shape = {"type": "string", "pattern": r"^https?://[^\s/]+(/\S*)?$"}
LINK = closed(["href"], href=ADDRESS, rel=TEXT, type=TEXT, hreflang=TEXT, title=TEXT)
LINKS: Shape = {"type": "array", "items": LINK}
# The standard's `schema` knows these words and no others.
WORDS = (
    "title multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern maxItems minItems"
    " uniqueItems maxProperties minProperties required enum type not allOf oneOf anyOf items properties"
    " additionalProperties description format default nullable readOnly writeOnly example deprecated"
    " contentMediaType contentEncoding contentSchema"
)
SCHEMA: Shape = {"type": "object", "propertyNames": {"enum": WORDS.split()}, "required": ["type"]}
LANDING = closed(["links"], title=TEXT, description=TEXT, links=LINKS)
CONFORMANCE = closed(["conformsTo"], conformsTo={"type": "array", "items": ADDRESS})
SUMMARY: Shape = {
    "id": TEXT,
    "version": TEXT,
    "title": TEXT,
    "description": TEXT,
    "jobControlOptions": {"type": "array", "items": {"enum": ["sync-execute", "async-execute", "dismiss"]}},
    "outputTransmission": {"type": "array", "items": {"enum": ["value", "reference"]}},
    "links": LINKS,
}
PROCESSES = closed(
    ["processes", "links"], processes={"type": "array", "items": closed(["id", "version"], **SUMMARY)}, links=LINKS
)
INPUT = closed(
    ["schema"],
    title=TEXT,
    description=TEXT,
    minOccurs={"type": "integer", "minimum": 0},
    maxOccurs={"anyOf": [{"type": "integer"}, {"const": "unbounded"}]},
    schema=SCHEMA,
)
OUTPUT = closed(["schema"], title=TEXT, description=TEXT, schema=SCHEMA)
PROCESS = closed(
    ["id", "version", "inputs", "outputs"],
    **SUMMARY,
    inputs={"type": "object", "additionalProperties": INPUT},
    outputs={"type": "object", "additionalProperties": OUTPUT},
)
STATUS = closed(
    ["jobID", "status", "type"],
    processID=TEXT,
    type={"const": "process"},
    jobID=TEXT,
    status={"enum": ["accepted", "running", "successful", "failed", "dismissed"]},
    message=TEXT,
    created=MOMENT,
    started=MOMENT,
    finished=MOMENT,
    updated=MOMENT,
    progress={"type": "integer", "minimum": 0, "maximum": 100},
    links=LINKS,
)
JOBS = closed(["jobs", "links"], jobs={"type": "array", "items": STATUS}, links=LINKS)
# A result is a value that is no object, or a qualified one.
VALUE: Shape = {
    "anyOf": [{"type": ["string", "number", "integer", "boolean", "array"]}, {"type": "object", "required": ["value"]}]
}
RESULTS: Shape = {"type": "object", "minProperties": 1, "additionalProperties": VALUE}
EXCEPTION: Shape = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": TEXT, "title": TEXT, "status": {"type": "integer"}, "detail": TEXT, "instance": TEXT},
}


def faults(document: Any, shape: Shape) -> list[str]:
    """What of the document is not of the shape."""
    validator = Draft202012Validator(shape, format_checker=Draft202012Validator.FORMAT_CHECKER)
    return [f"{fault.json_path}: {fault.message}" for fault in validator.iter_errors(document)]
