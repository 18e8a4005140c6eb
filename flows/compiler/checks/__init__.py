"""The laws of the language. Each is one small function that reports faults; a new one is a function and a line here."""

from collections.abc import Callable, Iterator

from flows.compiler.checks import (
    branches,
    cycles,
    defaults,
    fans,
    handlers,
    identity,
    parameters,
    reach,
    retries,
    skips,
    targets,
    templates,
    terminals,
)
from flows.compiler.checks.subject import Subject
from flows.compiler.faults import Fault

Law = Callable[[Subject], Iterator[Fault]]

LAWS: tuple[Law, ...] = (
    identity.id_is_well_formed,
    terminals.has_one_start,
    terminals.has_an_end,
    targets.every_target_exists,
    cycles.nothing_leads_back,
    cycles.no_workflow_runs_itself,
    reach.everything_is_reached,
    reach.everything_reaches_an_end,
    branches.a_conditional_has_one_form,
    branches.every_case_goes_somewhere,
    fans.a_fan_out_leads_to_its_fan_in,
    fans.a_fan_in_follows_its_fan_out,
    fans.children_have_their_names_to_themselves,
    fans.a_source_gives_a_list,
    fans.a_field_is_read_by_sum_and_concat,
    handlers.every_handler_is_declared,
    handlers.every_sub_workflow_exists,
    handlers.handlers_run_where_their_needs_are,
    handlers.one_name_for_one_thing,
    parameters.required_parameters_are_given,
    parameters.given_parameters_are_declared,
    parameters.literal_parameters_are_valid,
    defaults.defaults_fit_their_inputs,
    defaults.bounds_fit_their_types,
    retries.delays_are_in_order,
    templates.templates_are_well_formed,
    templates.names_exist,
    templates.fan_out_names_stay_inside,
    templates.read_nodes_are_upstream,
    templates.read_fields_are_declared,
    skips.skipped_nodes_are_read_with_care,
)


# A plan's steps are sub-workflows: the laws of nodes that run workflows are theirs too.
PLAN_LAWS: tuple[Law, ...] = (
    identity.id_is_well_formed,
    targets.every_target_exists,
    cycles.nothing_leads_back,
    handlers.every_sub_workflow_exists,
    parameters.required_parameters_are_given,
    parameters.given_parameters_are_declared,
    parameters.literal_parameters_are_valid,
    defaults.defaults_fit_their_inputs,
    defaults.bounds_fit_their_types,
    templates.templates_are_well_formed,
    templates.names_exist,
    templates.fan_out_names_stay_inside,
    templates.read_nodes_are_upstream,
    templates.read_fields_are_declared,
)


def check(subject: Subject, laws: tuple[Law, ...] = LAWS) -> list[Fault]:
    """Every fault that any law finds."""
    return [fault for law in laws for fault in law(subject)]
