"""What a node may say that its tries need: the `resources` of the language's tables."""

from flows.compiler.expressions import is_template
from flows.compiler.faults import excerpt
from flows.compiler.kinds import Field, either, mapping, number, text


def _memory_law(value: str) -> tuple[str, str] | None:
    if is_template(value):
        return None
    return f"must be {MEGABYTES}, not {excerpt(value)}", "write megabytes without a unit: memory_mb: 2048"


MEGABYTES = "a number of megabytes from 16 to 4194304"
_MEMORY = either(
    f"{MEGABYTES}, or a template of one",
    number(MEGABYTES, minimum=16, maximum=4_194_304),
    text("a template", law=_memory_law),
)
_PROCESSORS = number("a number of processors from 0.1 to 256", minimum=0.1, maximum=256)
RESOURCES = mapping(
    {
        "memory_mb": Field(_MEMORY, "Memory of one try; a template may reckon it from what earlier nodes told"),
        "cpus": Field(_PROCESSORS, "Processors of one try"),
        "cpu": Field(_PROCESSORS, "The same as cpus"),
        "gpu": Field(
            number("a whole number of GPUs from 0 to 16", minimum=0, maximum=16, whole=True), "GPUs of one try"
        ),
    },
    "a mapping such as {memory_mb: 2048, cpus: 1}",
)
