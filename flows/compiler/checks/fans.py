"""Laws of fan_out and fan_in: they come in pairs, and nothing stands between the two."""

from collections.abc import Iterator

from flows.compiler.checks.subject import Subject
from flows.compiler.expressions import parse_template
from flows.compiler.faults import Fault


def a_fan_out_leads_to_its_fan_in(subject: Subject) -> Iterator[Fault]:
    """A fan_out's next is exactly one fan_in, and no two share it."""
    taken: dict[str, str] = {}
    for node in subject.model.of_type("fan_out"):
        if node.id in subject.model.unread_ends:
            continue
        followers = _unique(edge.target for edge in subject.graph.out[node.id])
        message, hint = "", "write next: <id of a fan_in>, and let that fan_in lead on"
        if len(followers) != 1 or subject.model.nodes[followers[0]].type != "fan_in":
            message = f"{node.id!r} must lead to exactly one fan_in, not to {' and '.join(followers) or 'nothing'}"
        elif taken.setdefault(followers[0], node.id) != node.id:
            message = f"{node.id!r} shares the fan_in {followers[0]!r} with {taken[followers[0]]!r}"
            hint = "give each fan_out a fan_in of its own; a node after both may depend on the two"
        if message:
            yield subject.model.document.at_key(node.path, "fan-out-without-fan-in", message, hint)


def a_fan_in_follows_its_fan_out(subject: Subject) -> Iterator[Fault]:
    """The only predecessor of a fan_in is its fan_out."""
    for node in subject.model.of_type("fan_in"):
        if node.id in subject.model.unread_ends:
            continue
        sources = _unique(edge.source for edge in subject.graph.into[node.id])
        kinds = {subject.model.nodes[source].type for source in sources}
        # Two fan_outs in front of one fan_in are told once, at the second fan_out.
        if kinds != {"fan_out"}:
            message = f"{node.id!r} must follow a fan_out and nothing else, not {' and '.join(sources) or 'nothing'}"
            hint = f"let a fan_out name it (next: {node.id}), or make it another node"
            yield subject.model.document.at_key(node.path, "fan-in-without-fan-out", message, hint)


def children_have_their_names_to_themselves(subject: Subject) -> Iterator[Fault]:
    """No node is called what a child of a fan_out is called: `{fan_out}__{index}`."""
    for node in subject.model.nodes.values():
        parent, _, index = node.id.rpartition("__")
        if index.isdigit() and parent in subject.model.nodes and subject.model.nodes[parent].type == "fan_out":
            message = f"{node.id!r} is the name of a child of {parent!r}"
            yield subject.model.document.at_key(node.path, "bad-value", message, "call the node something else")


def a_source_gives_a_list(subject: Subject) -> Iterator[Fault]:
    """A source that is text is exactly one expression: other text is never a list."""
    for node in subject.model.of_type("fan_out"):
        source, path = node.fields.get("source"), (*node.path, "source")
        if not isinstance(source, str):
            continue
        template = parse_template(source)
        if not template.complaints and not template.expression:
            message = f"the source of {node.id!r} is text, where a list is needed"
            hint = 'write one expression, such as "{{ inputs.list }}", or a list'
            yield subject.model.document.at_value(path, "bad-value", message, hint)


def a_field_is_read_by_sum_and_concat(subject: Subject) -> Iterator[Fault]:
    """Only sum and concat look into one field of the outputs."""
    for node in subject.model.of_type("fan_in"):
        aggregation = node.raw.get("aggregation", "collect")
        if "field" in node.fields and aggregation in ("collect", "first", "last"):
            message = f"{aggregation} takes outputs whole and reads no field"
            hint = "leave field out, or write aggregation: sum or concat"
            yield subject.model.document.at_key((*node.path, "field"), "bad-value", message, hint)


def _unique(names: Iterator[str]) -> list[str]:
    return list(dict.fromkeys(names))
