"""The walk of one submission stays true: what it names is there, in an order that can be read."""

from dataclasses import replace

from tests.support.walk import MOST_FILES, PAGE, Stop, defined, faults, imported, stops

WALK = stops(PAGE.read_text())


def test_walk_names_what_is_there_once_and_comes_to_it_from_above() -> None:
    assert 40 <= len(WALK) <= MOST_FILES
    assert WALK[0].functions[0] == "submit"
    assert "RunLifecycle.commit" in WALK[-3].functions
    assert list(faults(WALK)) == []


def test_file_that_stands_twice_in_the_walk_is_reported() -> None:
    (told,) = faults([*WALK[:3], replace(WALK[1], by="HTTP")])
    assert told == f"{WALK[1].file} stands twice: a reader would have to come back to it."


def test_row_that_nothing_above_imports_is_reported() -> None:
    (told,) = faults([WALK[0], Stop("domain/repositories/intake.py", ["Intake.write"], "call")])
    assert "Nothing above domain/repositories/intake.py in the walk imports it" in told


def test_missing_function_or_file_is_reported_with_its_nearest_name() -> None:
    renamed = Stop(WALK[0].file, ["submit", "_accept", "vanished"], "HTTP")
    moved = Stop("gateway/blueprints/moved.py", ["submit"], "HTTP")
    assert list(faults([renamed, moved])) == [
        f"{WALK[0].file} has no _accept. There is accept",
        f"{WALK[0].file} has no vanished. Was it renamed?",
        "gateway/blueprints/moved.py is not there. Was it moved? Name its new place in architecture.md.",
    ]


def test_too_long_walk_and_unknown_passage_are_reported() -> None:
    told = list(faults([*WALK, *(Stop(f"x{number}.py", [], "call") for number in range(MOST_FILES))]))
    assert told[0].startswith(f"The walk passes {len(WALK) + MOST_FILES} files")
    (strange,) = faults([replace(WALK[0], by="telepathy")])
    assert "by 'telepathy', which is none of call, HTTP" in strange


def test_imports_are_seen_within_functions_and_through_packages() -> None:
    assert "flows/handlers/raster/cog.py" in imported("flows/handlers/raster/declarations.py")
    assert "flows/compiler/schedule.py" in imported("flows/runs/runner.py")
    assert {"Runner.run_plan", "SubWorkflows.run_workflow"} <= defined("flows/runs/runner.py")
