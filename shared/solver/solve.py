"""The planner: a pure function from a snapshot of the cluster to a plan.

It uses no clock, I/O, randomness or logging. Ties are broken by name or UID, so two processes make the same plan, byte
for byte, whatever their hash seed. A pod that cannot be planned gets a verdict in ``Plan.unschedulable`` and never
stops the others.

It plans the pods that wait for capacity (POD-01) and those in ``reschedule``, which are bound to a node that is about
to be removed (POD-09).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from itertools import chain

import msgspec

from shared.domain.devices.reduction import Reduced, with_devices
from shared.domain.expressions import PREFER_NO_SCHEDULE
from shared.domain.pools.nodepools import NodePool, PackingPolicy
from shared.domain.pools.usage import USUAL, Counting
from shared.domain.resources import CPU, MEMORY
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.by_node import PodsByNode, without_node
from shared.domain.workloads.pods import Pod, SpreadConstraint, is_provisionable, is_reschedulable
from shared.domain.workloads.recommendations import created_anew
from shared.errors import ConfigurationError, InvalidObject
from shared.runtime.ram import uncollected
from shared.solver import reasons
from shared.solver.encode import ResourceAxis, TypeTable
from shared.solver.gangs import Gangs, Planning, gang_of, with_others_left_out, with_whole_gangs
from shared.solver.lowest_cost.choice import Choice, cheaper
from shared.solver.lowest_cost.packing import PackingSettings
from shared.solver.output import PlanWriter, machine_name, plan_id
from shared.solver.placement.existing import anti_affine, existing_targets, group_by_node
from shared.solver.placement.fewest_nodes import Placement, Run, no_deadline
from shared.solver.placement.known_nodes import forget_gone, host_of
from shared.solver.placement.planned_machines import MinValuesPolicy, OpenMachine
from shared.solver.placement.relaxation import IGNORE, PreferencePolicy, without_preferences
from shared.solver.plan import FLUID, Plan, PlannedMachine
from shared.solver.pod_classes import ClassRegistry, PodClass
from shared.solver.pools.daemons import with_running_daemons
from shared.solver.pools.expander import Expander, Priorities, in_order
from shared.solver.pools.packing_policy import node_price
from shared.solver.pools.templates import PoolTemplate, domain_sources, usable_templates
from shared.solver.reservations.held import HeldPlaces
from shared.solver.reservations.places import FreePlaces
from shared.solver.reservations.reserving import free_places, reserve
from shared.solver.topology.bound_pods import bound_pods
from shared.solver.topology.counting import Topology
from shared.solver.topology.default_spread import with_default_spread
from shared.solver.topology.gang_domains import GangDomains
from shared.solver.topology.namespaces import with_namespaces
from shared.solver.topology.selectors import label_keys
from shared.solver.volumes.attachable import with_attachable_volumes
from shared.solver.volumes.reach import Volumes
from shared.solver.volumes.shared_claims import with_shared_claims

POLICIES: dict[str, type[StrEnum]] = {
    "preference_policy": PreferencePolicy,
    "min_values_policy": MinValuesPolicy,
    "packing_policy": PackingPolicy,
    "expander": Expander,
}
"""The settings of the planner that name a policy, and their values."""


class SolverSettings(msgspec.Struct, frozen=True):
    """Settings of the planner. The policies may be given as plain strings."""

    max_instance_types: int = 600
    preference_policy: str = PreferencePolicy.RESPECT
    min_values_policy: str = MinValuesPolicy.STRICT
    packing_policy: str = PackingPolicy.FEWEST_NODES
    """For pools without a policy of their own."""
    node_price_micro_usd: int | None = None
    """What LowestCost counts for one more node beside its price, per hour, in pools without a price of their own; None:
    nothing, and for Balanced its own default."""
    effort: int = 200
    """The work that LowestCost may spend on a plan, in units of about a millisecond; counted, not timed."""
    most_node_cpu_milli: int | None = None
    """LowestCost plans no machines with more CPU, unless a single pod needs one."""
    ignore_device_claims: bool = True
    """True: pods with resource claims are not planned. False: they are planned with their devices (POD-08, DRA-01)."""
    default_spread: tuple[SpreadConstraint, ...] = ()
    """Constraints for pods with a controller and without constraints of their own (SCH-85)."""
    fills_reservations: bool = True
    """True: FewestNodes fills places in reservations before it buys. False: a planned machine gets a place only if it
    happens to suit one, since one machine for all pods may be better than two of which one is prepaid."""
    priority_cutoff: int | None = None
    """Pods of a lower priority are expendable; None: none is. Whoever assembles a snapshot marks them."""
    counting: Counting = USUAL
    """Which terminating machines count towards their pool's limits."""
    expander: str = Expander.NONE
    """Which of several pools of the same weight comes first, in ``solve_in_order``."""
    pool_priorities: Priorities = ()
    """For the expander ``priority``."""

    def __post_init__(self) -> None:
        """Raises ConfigurationError for an invalid value."""
        if self.max_instance_types < 1:
            raise ConfigurationError("max_instance_types must be at least 1")
        if self.node_price_micro_usd is not None and self.node_price_micro_usd < 0:
            raise ConfigurationError("node_price_micro_usd must be at least 0")
        for name, choices in POLICIES.items():
            if getattr(self, name) not in tuple(choices):
                raise ConfigurationError(f"{name} must be {' or '.join(filter(None, choices))}")


def solve_in_order(
    snapshot: Snapshot,
    *,
    now: float,
    settings: SolverSettings,
    reschedule: frozenset[str] = frozenset(),
    time_is_up: Callable[[], bool] = no_deadline,
    bounded: bool = True,
) -> Plan:
    """``solve`` with the pools of each weight in the order of the expander: the plan for pods that wait."""

    def planned(whole: Snapshot) -> Plan:
        return solve(
            whole,
            now=now,
            settings=settings,
            reschedule=reschedule,
            time_is_up=time_is_up,
            bounded=bounded,
        )

    def plan_with(pools: tuple[NodePool, ...]) -> Plan:
        return planned(msgspec.structs.replace(snapshot, pools=pools))

    return planned(in_order(snapshot, settings.expander, settings.pool_priorities, plan_with))


def solve(
    snapshot: Snapshot,
    *,
    now: float,
    settings: SolverSettings,
    reschedule: frozenset[str] = frozenset(),
    time_is_up: Callable[[], bool] = no_deadline,
    bounded: bool = True,
) -> Plan:
    """The plan for one snapshot.

    ``now``: seconds since the epoch, for the age of nodes whose devices are not published yet. ``reschedule``: UIDs of
    bound pods that need another node. ``time_is_up``: once it returns True, the plan contains only the pods placed so
    far (BAT-07). ``bounded`` False: the plan states no lower bound, which takes a third of the time of a small plan
    of FewestNodes and a quarter of one of LowestCost.
    """
    counted = Reduced(with_attachable_volumes(snapshot, reschedule))
    if not settings.ignore_device_claims:
        counted = with_devices(counted.snapshot, now=now, reschedule=reschedule)

    def whole(gangs: Gangs) -> Plan:
        return _solve(counted, settings, reschedule, time_is_up, gangs, bounded=bounded)

    def alone(gang: str, gangs: Gangs) -> Plan:
        only = counted.with_pods(with_others_left_out(counted.snapshot.pods, gang, reschedule))
        fewest = msgspec.structs.replace(settings, packing_policy=PackingPolicy.FEWEST_NODES)
        return _solve(only, fewest, reschedule, time_is_up, gangs, bounded=False)

    domains = GangDomains(counted.snapshot, settings.counting)
    with uncollected():
        return with_whole_gangs(Planning(whole, alone, domains, reschedule), snapshot.pods)


def _solve(
    counted: Reduced,
    settings: SolverSettings,
    reschedule: frozenset[str],
    time_is_up: Callable[[], bool],
    gangs: Gangs,
    *,
    bounded: bool,
) -> Plan:
    named = with_namespaces(with_running_daemons(counted.snapshot))
    snapshot, sharing = with_shared_claims(named)
    volumes = Volumes(snapshot)
    chosen, verdicts = _pods_to_place(snapshot, reschedule, volumes, settings, gangs)
    free = free_places(snapshot)
    others = counted.others
    given = (snapshot, chosen, verdicts, settings, reschedule, volumes, others, free, time_is_up)
    fewest, queue = _prepare(*given)
    fewest.run(queue)
    identity = plan_id(
        dict.fromkeys(pod.uid for pod in chosen),
        (m.uid or m.name for m in snapshot.machines),
        (n.uid or n.name for n in snapshot.nodes),
    )

    def written(placement: Placement) -> tuple[PlannedMachine, ...]:
        writer = PlanWriter(placement.table, settings.max_instance_types)
        return planned_machines(placement.machines, identity, writer)

    def paid(placement: Placement) -> tuple[int, int]:
        machines = written(placement)
        kept, refused = reserve(machines, snapshot)
        return len(refused), sum(one.offering.price_micro_usd_per_hour for one in kept)

    packing = PackingSettings(
        settings.packing_policy, settings.effort, settings.most_node_cpu_milli, free
    )
    choice = cheaper(
        fewest, queue, packing, lambda: _prepare(*given), paid if free else None, bounded=bounded
    )
    machines, refused = reserve(written(choice.placement), snapshot)
    for uid, text in choice.placement.verdicts.items():
        # Without notes this is the same text, which thousands of pods may share.
        notes = sharing.get(uid, "") + counted.notes.get(uid, "")
        verdicts[uid] = text + volumes.explanation(uid) + notes
    return _plan(identity, snapshot, choice, machines, verdicts | refused)


def _plan(
    identity: str,
    snapshot: Snapshot,
    choice: Choice,
    machines: tuple[PlannedMachine, ...],
    verdicts: dict[str, str],
) -> Plan:
    """The record of the chosen placement, with nodes and pods sorted."""
    placement = choice.placement
    is_prepaid = any(m.offering.reservation_id for m in machines)
    bound = None if is_prepaid else choice.bound
    return Plan(
        id=identity,
        generation=snapshot.generation,
        machines=machines,
        existing={name: tuple(placement.existing[name]) for name in sorted(placement.existing)},
        unschedulable={uid: verdicts[uid] for uid in sorted(verdicts)},
        cost_micro_usd_per_hour=sum(m.offering.price_micro_usd_per_hour for m in machines),
        lower_bound_micro_usd_per_hour=bound.micro_usd_per_hour if bound else None,
        lower_bound_kind=bound.kind if bound and bound.kind != FLUID else msgspec.UNSET,
        relaxed=choice.relaxed,
        given_up=tuple(placement.given_up),
        policies=choice.policies,
        faults=placement.faults,
    )


def _pods_to_place(
    snapshot: Snapshot,
    reschedule: frozenset[str],
    volumes: Volumes,
    settings: SolverSettings,
    gangs: Gangs,
) -> tuple[list[Pod], dict[str, str]]:
    """Pods in queue order, and the verdicts of pods that are not planned (POD-03, POD-06)."""
    chosen, verdicts = [], {}
    for pod in snapshot.pods if reschedule else without_node(snapshot.pods):
        if pod.node_name and pod.uid not in reschedule:
            continue  # most pods of a cluster; the rule below says the same and takes longer
        if not is_provisionable(pod) and not (pod.uid in reschedule and is_reschedulable(pod)):
            continue
        if pod.faults or pod.gang or pod.claims_devices or pod.volume_claims:
            verdict = _refusal(pod, volumes, settings, gangs.refused)
            if verdict:
                verdicts[pod.uid] = verdict
                continue
        chosen.append(gangs.confined(created_anew(pod) if pod.uid in reschedule else pod))
    if settings.default_spread:
        chosen = [with_default_spread(pod, settings.default_spread) for pod in chosen]
    return sorted(chosen, key=queue_position), verdicts


def _refusal(
    pod: Pod, volumes: Volumes, settings: SolverSettings, refused_gangs: Mapping[str, str]
) -> str:
    """Why the pod is not planned; empty when it is. Its volumes are resolved."""
    gang = gang_of(pod)
    if pod.faults or gang in refused_gangs:
        return "; ".join(pod.faults) or refused_gangs[gang]
    if pod.claims_devices and settings.ignore_device_claims:
        return reasons.NO_DEVICES
    try:
        volumes.resolve(pod)
    except InvalidObject as error:
        return str(error)
    return ""


def queue_position(pod: Pod) -> tuple[bool, int, int, float, str]:
    """The sort key of the queue: real pods before virtual ones (GAT-02), CPU and memory descending, age, UID
    (SCH-30)."""
    requests = pod.requests
    cpu, memory = requests.get(CPU, 0), requests.get(MEMORY, 0)
    return (pod.virtual, -cpu, -memory, pod.created_at, pod.uid)


def _prepare(
    snapshot: Snapshot,
    chosen: list[Pod],
    verdicts: dict[str, str],
    settings: SolverSettings,
    reschedule: frozenset[str],
    volumes: Volumes,
    others: Mapping[str, tuple[dict[str, int], ...]],
    free: tuple[FreePlaces, ...],
    time_is_up: Callable[[], bool],
) -> tuple[Placement, list[Run]]:
    """An empty placement over the encoded snapshot, and the queue. ``others``: pod UID -> its requests in other ways of
    meeting its device claims."""
    forget_gone(len(snapshot.nodes))
    bound = group_by_node(snapshot.pods, reschedule)
    owners = anti_affine(bound)
    ways = (way for found in others.values() for way in found)
    axis = ResourceAxis(
        [*(p.requests for p in chosen), *(d.requests for d in snapshot.daemon_sets), *ways]
    )
    table = TypeTable.of(snapshot.catalogue, axis, snapshot.unavailable, snapshot.shortages)
    templates, refusals = usable_templates(snapshot, table, settings.counting)
    for template in templates:
        template.node_price = node_price(
            template.pool, settings.packing_policy, settings.node_price_micro_usd
        )
    selected = label_keys(chain(chosen, owners))
    topology = _topology(snapshot, templates, bound, selected, owners)
    registry = ClassRegistry(axis, selected, volumes.resolved, others)
    queue = queue_of(chosen, registry, verdicts, settings)
    for pods in registry:
        topology.register(pods)
    placement = Placement(
        table=table,
        topology=topology,
        registry=registry,
        targets=existing_targets(snapshot, table, bound, volumes),
        templates=templates,
        tolerate_preferred=has_preferred_taint(snapshot),
        no_template="; ".join(refusals) if snapshot.pools else reasons.NO_POOL,
        faults=(*table.faults, *refusals),
        min_values_policy=settings.min_values_policy,
        max_instance_types=settings.max_instance_types,
        held=HeldPlaces(free if settings.fills_reservations else ()),
        time_is_up=time_is_up,
    )
    return placement, queue


def has_preferred_taint(snapshot: Snapshot) -> bool:
    return any(t.effect == PREFER_NO_SCHEDULE for pool in snapshot.pools for t in pool.taints)


def queue_of(
    chosen: list[Pod],
    registry: ClassRegistry,
    verdicts: dict[str, str],
    settings: SolverSettings,
) -> list[Run]:
    """Runs of neighbouring pods of one class. A pod with an invalid expression gets its verdict here."""
    queue: list[Run] = []
    last: PodClass | None = None
    uids: list[str] = []
    ignores = settings.preference_policy == IGNORE
    for pod in chosen:
        try:
            found = registry.intern(without_preferences(pod) if ignores else pod)
        except InvalidObject as error:
            verdicts[pod.uid] = str(error)
            continue
        if found is not last:
            last, uids = found, []
            queue.append((found, uids))
        uids.append(pod.uid)
    return queue


def _topology(
    snapshot: Snapshot,
    templates: list[PoolTemplate],
    bound: PodsByNode,
    selected: frozenset[str],
    owners: list[Pod],
) -> Topology:
    """``owners``: running pods with anti-affinity."""
    hosts = {node.name: host_of(node) for node in snapshot.nodes}
    staying = [hosts[n.name] for n in snapshot.nodes if not n.terminating]
    running = bound_pods(bound, hosts, selected)
    topology = Topology(lambda key: domain_sources(templates, staying, key), hosts, running)
    for pod in owners:
        if pod.node_name in hosts:
            topology.add_bound_owner(pod, pod.node_name)
    return topology


def planned_machines(
    machines: Iterable[OpenMachine], identity: str, writer: PlanWriter
) -> tuple[PlannedMachine, ...]:
    """``identity``: the id of their plan."""
    return tuple(
        writer.machine(machine, machine_name(machine.template.pool.name, identity, index))
        for index, machine in enumerate(machines)
    )
