"""Texts of verdicts: why a pod stays pending. Users and scripts match these texts, so they are a contract (SCH-43).

The functions only turn facts into text.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from shared.domain import labels as keys
from shared.domain.devices.reduction import without_columns
from shared.domain.instance_types.shortages import MOST_SPREAD
from shared.domain.instance_types.types import Offering
from shared.domain.pools.nodepools import NodePool
from shared.domain.requirements import Requirements
from shared.domain.resources import Resources, format_resources

IMPLAUSIBLE_MILLI_CPU = 1_000_000 * 1000
"""A CPU request of this size or more probably has the wrong unit (SCH-45)."""

NO_POOL = "no Provisioner or NodePool without faults exists; create one, or mend the faults"
NO_DEVICES = "spec.resourceClaims: dynamic resource allocation (DRA) is not supported"
"""Verdict of pods with resource claims (POD-08)."""
EXCEEDS_NODE = "exceeds node resources"
OUT_OF_TIME = "this round had no time left for it; the next one plans it"


class Filtering(NamedTuple):
    """Which of three conditions, and which pairs of them, at least one instance type met (SCH-42)."""

    requirements: bool
    fits: bool
    offering: bool
    requirements_and_fits: bool
    requirements_and_offering: bool
    fits_and_offering: bool


def no_instance_type(met: Filtering, milli_cpu: int) -> str:
    """The most specific true sentence (SCH-43), with a note about the unit for huge CPU requests (SCH-45)."""
    lacking = (not met.requirements, not met.fits, not met.offering)
    text = _MISSING.get(lacking)
    if text is None:
        return _never_together(met)
    if lacking == (False, True, False) and milli_cpu >= IMPLAUSIBLE_MILLI_CPU:
        text += " (CPU request >= 1 million cores, check the unit)"
    return text


_MISSING = {
    (True, True, True): (
        "no instance type met the scheduling requirements or had enough resources"
        " or had a required offering"
    ),
    (True, True, False): "no instance type met the scheduling requirements or had enough resources",
    (
        True,
        False,
        True,
    ): "no instance type met the scheduling requirements or had a required offering",
    (False, True, True): "no instance type had enough resources or had a required offering",
    (True, False, False): "no instance type met all requirements",
    (False, True, False): "no instance type has enough resources",
    (False, False, True): "no instance type has the required offering",
}
"""(no requirements, no resources, no offering) -> text."""


def _never_together(met: Filtering) -> str:
    if met.requirements_and_fits:
        return (
            "no instance type which met the scheduling requirements and had enough resources,"
            " had a required offering"
        )
    if met.fits_and_offering:
        return (
            "no instance type which had enough resources and the required offering"
            " met the scheduling requirements"
        )
    if met.requirements_and_offering:
        return (
            "no instance type which met the scheduling requirements and the required offering"
            " had the required resources"
        )
    return "no instance type met the requirements/resources/offering tuple"


def unsatisfied(total: Resources, requirements: Requirements, cause: str) -> str:
    """The cause, with the resources and requirements that were asked for (SCH-44)."""
    return (
        f"no instance type satisfied resources {amounts(total)}"
        f" and requirements {requirements} ({cause})"
    )


def amounts(resources: Resources) -> str:
    """Compact JSON without zero amounts: ``{"cpu":"310m","pods":"7"}``. Columns that stand for devices and volumes are
    left out: other words of the verdict say what was asked for."""
    shown = {name: amount for name, amount in without_columns(resources).items() if amount}
    return msgspec.json.encode(format_resources(shown)).decode()


def incompatible_with_pool(pool: NodePool, overhead: Resources, cause: str) -> str:
    """One pool's part of a verdict (SCH-33)."""
    return (
        f'incompatible with {pool.api.pool_noun} "{pool.name}",'
        f" daemonset overhead={amounts(overhead)}, {cause}"
    )


def limits_exceeded(pool: NodePool) -> str:
    """The reason when no type is within the pool's limits (SCH-101)."""
    return f'all available instance types exceed limits for {pool.api.pool_noun}: "{pool.name}"'


def excluded_by_limits(count: int) -> str:
    """An addition when limits excluded some types (SCH-101); else empty."""
    if count == 0:
        return ""
    return f", {count} instance types were excluded because they would breach limits"


def node_limit_exhausted(pool: NodePool) -> str:
    """The reason when the pool's limit on the number of nodes is reached (SCH-101)."""
    return f'node limits have been exhausted for {pool.api.pool_noun}: "{pool.name}"'


def group_is_full(pool: NodePool) -> str:
    """The reason when the pool's spread placement group takes no further instance (EC-06)."""
    noun = f'{pool.api.pool_noun} "{pool.name}"'
    return f"the spread placement group of {noun} is full: it takes {MOST_SPREAD} instances in each zone"


def pool_unusable(pool: NodePool, cause: str) -> str:
    """The reason when the planner cannot use a pool at all."""
    return f'{pool.api.pool_noun} "{pool.name}" cannot be used: {cause}'


def no_types(pool: NodePool) -> str:
    """The reason when no instance type meets a pool's requirements, in Karpenter's words (SCH-112)."""
    return f"{pool.api.pool_noun} requirements filtered out all available instance types"


def no_types_meet(pool: NodePool, requirements: Requirements) -> str:
    """``no_types`` with the requirements."""
    return f"{no_types(pool)}: none meets {requirements} in the zones of its subnets"


def untolerated(taint: str) -> str:
    """The reason when a pod lacks a toleration (SCH-55)."""
    return f"did not tolerate taint {taint}"


def incompatible_requirements(cause: str) -> str:
    """The reason when two sets of requirements exclude each other (SCH-11)."""
    return f"incompatible requirements, {cause}"


def port_conflict(port: tuple[str, str, int]) -> str:
    """The reason when a host port is in use (SCH-55). ``port``: (protocol, host ip, port)."""
    protocol, address, number = port
    return f"checking host port usage, {protocol} port {number} on {address or '0.0.0.0'} is in use"


def unsatisfiable_topology(
    kind: str, key: str, counts: str, pod_domains: str, node_domains: str
) -> str:
    """The reason when no domain satisfies a topology rule (SCH-49)."""
    return (
        f"unsatisfiable topology constraint for {kind}, key={key}"
        f" (counts = {counts}, podDomains = {pod_domains}, nodeDomains = {node_domains})"
    )


def min_values_unmet(key: str, needed: int, found: int) -> str:
    """The reason when a label has fewer distinct values than minValues asks for (SCH-12)."""
    return (
        f"minValues requirement is not met for label(s) (label(s)=[{key}]):"
        f" {found} distinct values, {needed} needed"
    )


def min_values_unmet_by_pool(pool: NodePool, cause: str) -> str:
    """The reason when minValues is not met after the list of types is shortened (SCH-103)."""
    return (
        f"pod didn't schedule because {pool.api.pool_noun} \"{pool.name}\" couldn't meet minValues"
        f" requirements, {cause}"
    )


def price_fault(instance_type: str, offering: Offering) -> str:
    """The message about an offering that is left out because its price is invalid."""
    return (
        f"instance type {instance_type}, {offering.capacity_type} in {offering.zone}:"
        f" {offering.price_micro_usd_per_hour!r} is not a price in micro-USD per hour; the offering is left out"
    )


def zone_ids_unknown(node_class: str) -> str:
    """The reason for requirements on a zone id with a v1alpha5 class, whose subnets have no zone ids."""
    return (
        f'the zone ids of the subnets of node class "{node_class}" are not known;'
        f" ask for {keys.ZONE} instead of {keys.ZONE_ID}"
    )


def contradictory(key: str) -> str:
    """The reason when a pool's requirements and labels exclude every value of a key."""
    return f"its requirements and labels contradict each other on {key}"


def gang_incomplete(gang: str, missing: int, size: int) -> str:
    """The reason of a gang whose pods do not all exist (SCH-114)."""
    why = "do not exist yet or were not looked at by kube-scheduler"
    why = "do not exist yet or were not looked at by kube-scheduler"
    return f'gang "{gang}": {missing} of its {size} pods {why}, so none is placed'


def gang_fits_not(gang: str, count: int, size: int, cause: str) -> str:
    """The reason of a gang of which some pods find no place (SCH-114)."""
    return f'gang "{gang}": {count} of its {size} pods find no place, so none is placed: {cause}'


def gang_without_domains(gang: str, key: str) -> str:
    """The reason of a gang that must be within one value of a label that nothing has (SCH-115)."""
    return (
        f'gang "{gang}": no pool and no node has a value of the label "{key}" that is known before'
        " machines exist, so none of its pods is placed"
    )


def gang_fits_no_domain(gang: str, key: str, values: int, cause: str) -> str:
    """The reason of a gang that no single value of its label has room for (SCH-115)."""
    return (
        f'gang "{gang}": none of the {values} values of "{key}" has room for all its pods, so none'
        f" is placed: {cause}"
    )
