"""The words of a verdict: why a pod stays pending. Users and scripts match these texts (SCH-43).

Plain functions from facts to text; they decide nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from shared.domain import labels as keys
from shared.domain.instance_types.types import Offering
from shared.domain.pools.nodepools import NodePool
from shared.domain.requirements import Requirements
from shared.domain.resources import Resources, format_resources

ABSURD_MILLI_CPU = 1_000_000 * 1000
"""SCH-45: above this many cores the unit is probably wrong."""

NO_POOL = "no Provisioner or NodePool exists; create one"
NO_DEVICES = "spec.resourceClaims: dynamic resource allocation (DRA) is not supported"
"""POD-08: resource claims."""
NO_TYPES = "its requirements filtered out all available instance types"
"""SCH-112, of a whole pool."""
EXCEEDS_NODE = "exceeds node resources"
OUT_OF_TIME = "this round had no time left for it; the next one plans it"


class Filtering(NamedTuple):
    """SCH-42: which of the three conditions, and which pairs of them, any instance type met."""

    requirements: bool
    fits: bool
    offering: bool
    requirements_and_fits: bool
    requirements_and_offering: bool
    fits_and_offering: bool


def no_instance_type(met: Filtering, milli_cpu: int) -> str:
    """SCH-43, the most specific sentence that is true; SCH-45 adds the hint about units."""
    lacking = (not met.requirements, not met.fits, not met.offering)
    text = _MISSING.get(lacking)
    if text is None:
        return _never_together(met)
    if lacking == (False, True, False) and milli_cpu >= ABSURD_MILLI_CPU:
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
    """SCH-44: the cause with the resources and requirements that were asked."""
    return (
        f"no instance type satisfied resources {amounts(total)}"
        f" and requirements {requirements} ({cause})"
    )


def amounts(resources: Resources) -> str:
    """Compact JSON, zero amounts left out: ``{"cpu":"310m","pods":"7"}``."""
    shown = {name: amount for name, amount in resources.items() if amount}
    return msgspec.json.encode(format_resources(shown)).decode()


def incompatible_with_pool(pool: NodePool, overhead: Resources, cause: str) -> str:
    """SCH-33: one pool's part of the verdict."""
    return (
        f'incompatible with {pool.api.pool_noun} "{pool.name}",'
        f" daemonset overhead={amounts(overhead)}, {cause}"
    )


def limits_exceeded(pool: NodePool) -> str:
    """SCH-101: types beyond the limits."""
    return f'all available instance types exceed limits for {pool.api.pool_noun}: "{pool.name}"'


def excluded_by_limits(count: int) -> str:
    """SCH-101: an addition when limits took some types out of the choice; else nothing."""
    if count == 0:
        return ""
    return f", {count} instance types were excluded because they would breach limits"


def node_limit_exhausted(pool: NodePool) -> str:
    """SCH-101, for a limit on the number of nodes."""
    return f'node limits have been exhausted for {pool.api.pool_noun}: "{pool.name}"'


def pool_unusable(pool: NodePool, cause: str) -> str:
    """The pool itself is out of the game."""
    return f'{pool.api.pool_noun} "{pool.name}" cannot be used: {cause}'


def no_types(requirements: Requirements) -> str:
    """SCH-112: begins with NO_TYPES."""
    return f"{NO_TYPES}: none meets {requirements} in the zones of its subnets"


def untolerated(taint: str) -> str:
    """SCH-55: texts of refusal."""
    return f"did not tolerate taint {taint}"


def incompatible_requirements(cause: str) -> str:
    """SCH-11: texts of incompatibility."""
    return f"incompatible requirements, {cause}"


def port_conflict(port: tuple[str, str, int]) -> str:
    """SCH-55; ``port`` is (protocol, host ip, port)."""
    protocol, address, number = port
    return f"checking host port usage, {protocol} port {number} on {address or '0.0.0.0'} is in use"


def unsatisfiable_topology(
    kind: str, key: str, counts: str, pod_domains: str, node_domains: str
) -> str:
    """SCH-49: text for a constraint that cannot hold."""
    return (
        f"unsatisfiable topology constraint for {kind}, key={key}"
        f" (counts = {counts}, podDomains = {pod_domains}, nodeDomains = {node_domains})"
    )


def min_values_unmet(key: str, needed: int, found: int) -> str:
    """SCH-12: minValues."""
    return (
        f"minValues requirement is not met for label {key}:"
        f" {found} distinct values, {needed} needed"
    )


def min_values_unmet_by_pool(pool: NodePool, cause: str) -> str:
    """SCH-103: the list of types is cut, and what is left is too few kinds."""
    return (
        f"pod didn't schedule because {pool.api.pool_noun} \"{pool.name}\" couldn't meet minValues"
        f" requirements, {cause}"
    )


def price_fault(instance_type: str, offering: Offering) -> str:
    """An offering that cannot be compared with others is left out."""
    return (
        f"instance type {instance_type}, {offering.capacity_type} in {offering.zone}:"
        f" {offering.price_micro_usd_per_hour!r} is no price in micro-USD per hour; the offering is left out"
    )


def zone_ids_unknown(node_class: str) -> str:
    """Subnets of a v1alpha5 class do not say their zone's id: refused rather than left to chance."""
    return (
        f'the subnets of node class "{node_class}" do not tell their zone ids;'
        f" ask for {keys.ZONE} instead of {keys.ZONE_ID}"
    )


def contradictory(key: str) -> str:
    """A pool that no machine can satisfy, whatever the cloud offers."""
    return f"its requirements and labels contradict each other on {key}"
