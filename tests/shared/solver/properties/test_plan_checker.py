"""The plan checker finds errors: each test makes a valid plan invalid in one way."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.expressions import Expression, Taint
from shared.domain.instance_types.types import Offering
from shared.domain.snapshot import Snapshot
from shared.solver.plan import Plan, PlannedMachine
from tests.support.planning.builders import (
    DEFAULT_REQUIREMENTS,
    ZONES,
    amounts,
    make_bound_pod,
    make_catalogue,
    make_daemon_set,
    make_node,
    make_pod,
    make_pods,
    make_pool,
    make_snapshot,
    make_spread,
    make_term,
    make_type,
)
from tests.support.planning.plan_checker import check_plan, violations
from tests.support.planning.snapshots import plan_for

WEB: dict[str, Any] = {"labels": {"app": "web"}}
IN_A, IN_B = (Expression(keys.ZONE, "In", (zone,)) for zone in ZONES[:2])


def machine_of(plan: Plan, index: int = 0, **changes: Any) -> Plan:
    """The plan with one machine changed."""
    machines = list(plan.machines)
    machines[index] = replace(machines[index], **changes)
    return replace(plan, machines=tuple(machines))


def pinned(machine: PlannedMachine, zone: Expression) -> PlannedMachine:
    """The machine in one zone only."""
    others = tuple(e for e in machine.requirements if e.key != keys.ZONE)
    (place,) = zone.values
    offering = replace(machine.offering, zone=place)
    return replace(machine, requirements=(*others, zone), offering=offering)


def together(plan: Plan) -> Plan:
    """All pods on the first machine, as far as room is concerned."""
    first = plan.machines[0]
    uids = tuple(uid for m in plan.machines for uid in m.pods)
    cost = first.offering.price_micro_usd_per_hour
    machine = replace(first, pods=uids)
    return replace(plan, machines=(machine,), existing={}, cost_micro_usd_per_hour=cost)


def sound(snapshot: Snapshot) -> Plan:
    """A plan that the checker accepts."""
    plan = plan_for(snapshot)
    check_plan(plan, snapshot)
    return plan


def fault(plan: Plan, snapshot: Snapshot) -> str:
    """The checker's errors in one text."""
    return "\n".join(violations(plan, snapshot))


def test_a_pod_needs_exactly_one_verdict() -> None:
    snapshot = make_snapshot(*make_pods(2))
    plan = sound(snapshot)
    uids = plan.machines[0].pods
    assert "has no verdict" in fault(machine_of(plan, pods=uids[:1]), snapshot)
    assert "has 2 verdicts" in fault(replace(plan, unschedulable={uids[0]: "no"}), snapshot)
    assert "did not wait" in fault(machine_of(plan, pods=(*uids, "uid-x")), snapshot)


def test_pods_and_daemons_must_fit_each_listed_type() -> None:
    snapshot = make_snapshot(*make_pods(30, cpu="1"), daemon_sets=(make_daemon_set(cpu="2"),))
    plan = sound(snapshot)
    smallest = ("m5.x004", *plan.machines[0].instance_types)
    assert "as m5.x004: not enough cpu" in fault(
        machine_of(plan, instance_types=smallest), snapshot
    )
    full = make_snapshot(*make_pods(32, cpu="1"), catalogue=make_catalogue((make_type(cpu=32),)))
    with_daemon = replace(full, daemon_sets=(make_daemon_set(),))
    assert "not enough cpu" in fault(sound(full), with_daemon)


def test_a_foreign_type_or_one_without_offering_is_no_choice() -> None:
    snapshot = make_snapshot(make_pod())
    plan = sound(snapshot)
    assert "unknown type" in fault(machine_of(plan, instance_types=("m5.none",)), snapshot)
    sold_out = frozenset((keys.ON_DEMAND, "m5.x002", zone) for zone in ZONES)
    assert "no available offering" in fault(plan, replace(snapshot, unavailable=sold_out))


def test_the_offering_is_real_and_the_cheapest_and_adds_up() -> None:
    snapshot = make_snapshot(make_pod())
    plan = sound(snapshot)
    dear = Offering(ZONES[0], keys.ON_DEMAND, 4 * 48_000)
    assert "cheaper" in fault(machine_of(plan, instance_type="m5.x004", offering=dear), snapshot)
    free = Offering(ZONES[0], keys.ON_DEMAND, 1)
    assert "cannot be bought" in fault(machine_of(plan, offering=free), snapshot)
    assert "it says 5" in fault(replace(plan, cost_micro_usd_per_hour=5), snapshot)
    bounded = replace(plan, lower_bound_micro_usd_per_hour=plan.cost_micro_usd_per_hour + 1)
    assert "lower bound" in fault(bounded, snapshot)


def test_node_selector_and_affinity_hold_wherever_the_machine_may_go() -> None:
    snapshot = make_snapshot(make_pod())
    plan = sound(snapshot)
    for asks in (
        {"node_selector": {keys.ZONE: ZONES[0]}},
        {"node_selector": {"team": "red"}},
        {"required_terms": ((Expression(keys.ARCH, "NotIn", ("amd64",)),),)},
        {"required_terms": ((Expression(keys.AWS_PREFIX + "instance-cpu", "Gt", ("4",)),),)},
    ):
        other = replace(snapshot, pods=(make_pod(**asks),))
        assert "selector or affinity of uid-pod" in fault(plan, other)
    either = ((Expression("team", "Exists"),), (Expression(keys.OS, "In", ("linux",)),))
    assert fault(plan, replace(snapshot, pods=(make_pod(required_terms=either),))) == ""


def test_a_machine_keeps_to_its_pool() -> None:
    snapshot = make_snapshot(make_pod())
    plan = sound(snapshot)
    spot = make_pool(requirements=(Expression(keys.CAPACITY_TYPE, "In", (keys.SPOT,)),))
    assert "no available offering" in fault(plan, replace(snapshot, pools=(spot,)))
    assert "cannot make machines" in fault(plan, replace(snapshot, pools=(make_pool("other"),)))
    labelled = make_pool(labels={"team": "red"})
    assert "not those of its pool" in fault(plan, replace(snapshot, pools=(labelled,)))
    generations = Expression(keys.INSTANCE_TYPE, "NotIn", ("m5.x002",))
    strict = make_pool(requirements=(*DEFAULT_REQUIREMENTS, generations))
    assert "m5.x002" in fault(plan, replace(snapshot, pools=(strict,)))


def test_taints_must_be_tolerated_but_preferred_ones_may_be_relaxed() -> None:
    for effect, words in (("NoSchedule", "does not tolerate"), ("PreferNoSchedule", "")):
        pool = make_pool(taints=(Taint("dedicated", effect, "x"),))
        snapshot = make_snapshot(make_pod(), pools=(pool,))
        plan = machine_of(plan_for(make_snapshot(make_pod())), taints=pool.taints)
        found = fault(plan, snapshot)
        assert words in found
        assert bool(words) == bool(found)


def test_host_ports_do_not_meet() -> None:
    ports: dict[str, Any] = {"host_ports": (("TCP", "", 80),)}
    snapshot = make_snapshot(*make_pods(2, **ports))
    assert "same host port" in fault(together(sound(snapshot)), snapshot)
    daemon = make_daemon_set(**ports)
    plan = sound(make_snapshot(*make_pods(1, **ports)))
    snapshot = make_snapshot(*make_pods(1, **ports), daemon_sets=(daemon,))
    assert "host port of daemon set" in fault(plan, snapshot)


def test_limits_count_the_largest_type_of_each_machine() -> None:
    snapshot = make_snapshot(make_pod())
    plan = sound(snapshot)
    for limits in ({"cpu": 127_000}, {"nodes": 0}):
        limited = replace(snapshot, pools=(make_pool(limits=limits),))
        assert "limit" in fault(plan, limited)
    node = make_node(cpu="1", labels={keys.PROVISIONER_NAME: "default"}, unschedulable=True)
    used = replace(snapshot, pools=(make_pool(limits=amounts(cpu="128")),), nodes=(node,))
    assert "129000 cpu planned and used" in fault(plan, used)


@pytest.mark.parametrize("key", [keys.HOSTNAME, keys.ZONE])
def test_required_anti_affinity_holds_in_both_directions(key: str) -> None:
    owner = make_pod("owner", anti_affinity=(make_term(key),))
    snapshot = make_snapshot(owner, make_pod("web", **WEB))
    mixed = together(plan_for(replace(snapshot, pods=(make_pod("owner"), make_pod("web")))))
    assert "anti-affinity of uid-owner forbids uid-web" in fault(mixed, snapshot)
    node = make_node()
    placed = Plan("p", 1, (), {node.name: ("uid-web",)}, {})
    runs = make_bound_pod("owner", node.name, anti_affinity=(make_term(key),))
    snapshot = make_snapshot(runs, make_pod("web", **WEB), nodes=(node,))
    assert "anti-affinity of uid-owner forbids uid-web" in fault(placed, snapshot)


def test_zone_anti_affinity_counts_every_zone_a_machine_may_still_go_to() -> None:
    pods = make_pods(2, cpu="100", **WEB)
    plan = plan_for(make_snapshot(*pods))
    assert len(plan.machines) == 2
    owners = tuple(replace(p, anti_affinity=(make_term(keys.ZONE),)) for p in pods)
    snapshot = make_snapshot(*owners)
    assert "anti-affinity" in fault(plan, snapshot)
    apart = tuple(pinned(m, z) for m, z in zip(plan.machines, (IN_A, IN_B), strict=True))
    assert fault(replace(plan, machines=apart), snapshot) == ""


def test_required_affinity_needs_company_in_a_decided_domain() -> None:
    follower = make_pod("follower", cpu="100", affinity=(make_term(keys.ZONE),))
    snapshot = make_snapshot(make_pod("web", cpu="100", **WEB), follower)
    plan = plan_for(replace(snapshot, pods=(snapshot.pods[0], make_pod("follower", cpu="100"))))
    first, second = plan.machines
    for zones in ((IN_A, IN_B), (IN_A, None)):
        other = pinned(second, zones[1]) if zones[1] else second
        broken = replace(plan, machines=(pinned(first, IN_A), other))
        assert "affinity of uid-follower" in fault(broken, snapshot)
    joined = replace(plan, machines=(pinned(first, IN_A), pinned(second, IN_A)))
    assert fault(joined, snapshot) == ""


def test_an_affinity_to_oneself_starts_in_one_domain_only() -> None:
    pods = make_pods(2, cpu="100", affinity=(make_term(keys.ZONE),), **WEB)
    snapshot = make_snapshot(*pods)
    plan = sound(snapshot)
    apart = tuple(pinned(m, z) for m, z in zip(plan.machines, (IN_A, IN_B), strict=True))
    assert "instead of one domain" in fault(replace(plan, machines=apart), snapshot)
    runs = make_bound_pod("old", "node-1", **WEB)
    beside = replace(snapshot, pods=(runs, pods[0]), nodes=(make_node(),))
    alone = machine_of(replace(plan, machines=apart[1:]), pods=(pods[0].uid,))
    alone = replace(alone, cost_micro_usd_per_hour=apart[1].offering.price_micro_usd_per_hour)
    assert "nobody it wants" in fault(alone, beside)


def test_hard_spread_holds_over_zones_and_hosts() -> None:
    pods = make_pods(3, cpu="100", spread=(make_spread(keys.ZONE),), **WEB)
    snapshot = make_snapshot(*pods)
    plan = sound(snapshot)
    skewed = tuple(pinned(m, z) for m, z in zip(plan.machines, (IN_A, IN_A, IN_B), strict=True))
    assert "2 pods in us-west-2a, 0 in the smallest" in fault(
        replace(plan, machines=skewed), snapshot
    )
    undecided = plan_for(make_snapshot(*make_pods(3, cpu="100", **WEB)))
    assert "is not decided" in fault(undecided, snapshot)
    hosts = make_snapshot(*make_pods(2, spread=(make_spread(keys.HOSTNAME),), **WEB))
    assert "2 pods in machine" in fault(together(sound(hosts)), hosts)


def test_fewer_domains_than_min_domains_make_the_minimum_zero() -> None:
    rule = make_spread(keys.ZONE, min_domains=4)
    snapshot = make_snapshot(*make_pods(6, cpu="100", spread=(rule,), **WEB))
    lax = make_snapshot(*make_pods(6, cpu="100", spread=(make_spread(keys.ZONE),), **WEB))
    assert "2 pods in us-west-2a, 0 in" in fault(sound(lax), snapshot)


def test_min_values_are_met_by_the_listed_types() -> None:
    family = Expression(keys.AWS_PREFIX + "instance-family", "Exists", (), 2)
    snapshot = make_snapshot(make_pod())
    plan = sound(snapshot)
    asked = (*plan.machines[0].requirements, family)
    assert "minValues wants more" in fault(machine_of(plan, requirements=asked), snapshot)


def test_existing_nodes_have_room_labels_and_taints() -> None:
    node = make_node(cpu="2")
    plan = Plan("p", 1, (), {node.name: ("uid-pod",)}, {})
    snapshot = make_snapshot(make_pod(cpu="1"), make_bound_pod("old", node.name, cpu="1"))
    good = replace(snapshot, nodes=(node,))
    assert fault(plan, good) == ""
    full = replace(good, pods=(*good.pods, make_bound_pod("older", node.name)))
    assert "not enough cpu" in fault(plan, full)
    for changes, words in (
        ({"taints": (Taint("a", "NoExecute"),)}, "does not tolerate"),
        ({"unschedulable": True}, "takes no pods"),
        ({"terminating": True}, "takes no pods"),
    ):
        assert words in fault(plan, replace(good, nodes=(replace(node, **changes),)))
    picky = make_pod(node_selector={keys.ZONE: ZONES[1]})
    assert "selector or affinity" in fault(plan, replace(good, pods=(picky,)))
    assert "does not exist" in fault(plan, snapshot)


def test_a_pod_without_a_place_fits_nothing_or_says_what_else_forbids_it() -> None:
    snapshot = make_snapshot(make_pod())
    for reason, accepted in (
        ("no instance type has enough resources", False),
        ("all available instance types exceed limits for provisioner", True),
        (" ", False),
    ):
        plan = Plan("p", 1, (), {}, {"uid-pod": reason})
        assert (fault(plan, snapshot) == "") is accepted
    huge = replace(snapshot, pods=(make_pod(cpu="900"),))
    sound(huge)
