"""Random valid workflows: layers of tasks, conditionals and fan-outs; whoever ends nowhere leads to the end."""

from collections.abc import Callable

from hypothesis import strategies as st

Wording = Callable[[st.DrawFn, str, str], str]


def echo(draw: st.DrawFn, name: str, read: str) -> str:
    """A task that reads a node before it."""
    return f'handler: echo, params: {{x: "{{{{ nodes.{read}.status }}}}", y: "{{{{ nodes.{read}.output | default(0) }}}}"}}'


def echoes(draw: st.DrawFn, name: str, read: str) -> str:
    """A fan-out of a few children."""
    return f"source: {list(range(draw(st.integers(0, 4))))}, task: {{handler: echo}}"


@st.composite
def workflows(draw: st.DrawFn, task: Wording = echo, fan_out: Wording = echoes, *, most: int = 12) -> str:
    """A workflow with an input `n`, and `most` layers at most. How its work is worded may be chosen."""
    names = ["start"]
    lines = {"start": "type: start"}
    for number in range(draw(st.integers(1, most))):
        name = f"n{number}"
        before = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
        depends = f"depends_on: {draw(st.sampled_from(('', 'any_of: ')))}[{', '.join(before)}]"
        depends = depends.replace("any_of: ", "{any_of: ") + ("}" if "any_of" in depends else "")
        read = draw(st.sampled_from(before))
        when = f"when: 'inputs.n > {draw(st.integers(0, 9))}', " if draw(st.booleans()) else ""
        soft = "on_failure: continue, " if draw(st.booleans()) else ""
        match draw(st.sampled_from(("task", "fan", "conditional"))):
            case "task":
                lines[name] = f"{task(draw, name, read)}, {when}{soft}{depends}"
                names.append(name)
            case "fan":
                lines[name] = f"type: fan_out, {fan_out(draw, name, read)}, {when}{soft}{depends}, next: {name}in"
                lines[f"{name}in"] = "type: fan_in"
                names.append(f"{name}in")
            case _:
                lines[name] = (
                    f"type: conditional, condition: 'inputs.n > 4', on_true: {name}a, on_false: {name}b, {depends}"
                )
                lines |= {arm: task(draw, arm, name) for arm in (f"{name}a", f"{name}b")}
                names += [f"{name}a", f"{name}b"]
    body = "\n".join(f"  {name}: {{{fields}}}" for name, fields in lines.items())
    end = f"  end: {{type: end, depends_on: [{', '.join(names)}]}}"
    return f"workflow_id: test\nversion: 1\ninputs: {{n: {{type: integer, default: 5}}}}\nnodes:\n{body}\n{end}\n"
