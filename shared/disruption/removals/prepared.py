"""A cluster that is read once, to plan the removal of some of its machines many times. Pure.

A pass of consolidation plans the whole cluster up to some hundred times, each time without other machines. What a plan
reads of a thousand nodes takes ten times as long as placing a few pods, and is the same each time but for the missing
nodes. Only FewestNodes is planned here, and no pods with ports, volumes, devices or gangs: such removals get a whole
plan. A property test compares both.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from itertools import chain

from msgspec.structs import replace

from shared.disruption.removals.identities import Identities
from shared.domain.instance_types.reservations import ID_LABEL
from shared.domain.snapshot import Snapshot, moving_pods
from shared.domain.workloads.by_node import any_virtual, without_node
from shared.domain.workloads.pods import Pod, is_provisionable
from shared.domain.workloads.recommendations import created_anew
from shared.solver import reasons
from shared.solver.encode import ResourceAxis, TypeTable
from shared.solver.output import PlanWriter
from shared.solver.placement.existing import (
    ExistingTarget,
    anti_affine,
    existing_targets,
    group_by_node,
)
from shared.solver.placement.fewest_nodes import Placement
from shared.solver.placement.known_nodes import forget_gone, host_of
from shared.solver.placement.target_columns import TargetColumns
from shared.solver.plan import Plan
from shared.solver.pod_classes import ClassRegistry
from shared.solver.pools.daemons import with_running_daemons
from shared.solver.pools.packing_policy import node_price
from shared.solver.pools.templates import PoolTemplate, usable_templates
from shared.solver.solve import (
    SolverSettings,
    has_preferred_taint,
    planned_machines,
    queue_of,
    queue_position,
)
from shared.solver.topology.bound_pods import bound_pods
from shared.solver.topology.namespaces import with_namespaces
from shared.solver.topology.remaining import WholeTopology
from shared.solver.topology.selectors import label_keys, label_keys_of_all
from shared.solver.volumes.reach import Volumes
from shared.solver.volumes.shared_claims import with_shared_claims


@dataclass(frozen=True, eq=False)
class _View:
    """The cluster with the resources that some pods request."""

    axis: ResourceAxis
    table: TypeTable
    templates: list[PoolTemplate]
    refusals: list[str]
    targets: list[ExistingTarget]
    columns: TargetColumns
    places: dict[str, int]
    """Name of a target -> its place."""
    writer: PlanWriter
    """Of new machines: most plans of a pass have much the same ones."""


def may_be_prepared(snapshot: Snapshot, settings: SolverSettings) -> bool:
    """Whether a plan of this cluster reads nothing that is left out here."""
    catalogue, classes = snapshot.catalogue, snapshot.node_classes
    is_usual = settings.ignore_device_claims and not settings.default_spread
    return (
        is_usual
        and not any(ID_LABEL in kind.labels for kind in catalogue.types)
        and not any(one.spreads for one in classes)
        and not any_virtual(snapshot.pods)
        and with_shared_claims(snapshot)[0] is snapshot
    )


class Prepared:
    """``snapshot``: the whole cluster, with all pods and machines."""

    def __init__(self, snapshot: Snapshot, settings: SolverSettings) -> None:
        self._snapshot = whole = with_namespaces(with_running_daemons(snapshot))
        self._settings = settings
        forget_gone(len(whole.nodes))
        self._moving = moving_pods(whole)
        self._waiting = _waiting(whole, self._moving)
        self._bound = group_by_node(whole.pods, self._moving)
        self._volumes = Volumes(whole)
        self._owners = anti_affine(self._bound)
        self._selected = label_keys_of_all(whole.pods)
        self._keys_by_node = _keys_by_node(self._owners)
        self._nodes_with_key = Counter(chain.from_iterable(self._keys_by_node.values()))
        self._identities = Identities(whole)
        self._has_limits = any(pool.limits for pool in whole.pools)
        self._views: dict[tuple[str, ...], _View] = {}
        self._topology: WholeTopology | None = None

    def plan(self, gone: Set[str], machines: Set[str], moved: frozenset[str]) -> Plan | None:
        """The plan without the nodes of these names and the machines of these UIDs; ``moved``: UIDs of their pods that
        are placed again. None: a whole plan is needed."""
        own = (pod for name in gone for pod in self._bound.get(name, ()))
        chosen = [*self._waiting, *(created_anew(pod) for pod in own if pod.uid in moved)]
        if any(map(_is_special, chosen)):
            return None
        chosen.sort(key=queue_position)
        view = self._view(chosen)
        templates, refusals = self._pools(view, gone, machines)
        registry = ClassRegistry(view.axis, self._read_by_rules(chosen, gone))
        verdicts: dict[str, str] = {}
        queue = queue_of(chosen, registry, verdicts, self._settings)
        placement = Placement(
            table=view.table,
            topology=self._whole_topology(view).remaining(gone, registry),
            registry=registry,
            targets=view.targets,
            templates=templates,
            tolerate_preferred=has_preferred_taint(self._snapshot),
            no_template="; ".join(refusals) if self._snapshot.pools else reasons.NO_POOL,
            faults=(*view.table.faults, *refusals),
            min_values_policy=self._settings.min_values_policy,
            max_instance_types=self._settings.max_instance_types,
            known=view.columns.without([view.places[name] for name in gone if name in view.places]),
        )
        placement.run(queue)
        # Names of new machines follow from it, so it is that of a whole plan.
        uids = dict.fromkeys(pod.uid for pod in chosen)
        identity = self._identities.without(uids, machines, gone) if placement.machines else ""
        return self._plan(placement, view.writer, identity, verdicts | placement.verdicts)

    def _plan(
        self, placement: Placement, writer: PlanWriter, identity: str, verdicts: dict[str, str]
    ) -> Plan:
        machines = planned_machines(placement.machines, identity, writer)
        return Plan(
            id=identity,
            generation=self._snapshot.generation,
            machines=machines,
            existing={n: tuple(placement.existing[n]) for n in sorted(placement.existing)},
            unschedulable={uid: verdicts[uid] for uid in sorted(verdicts)},
            cost_micro_usd_per_hour=sum(m.offering.price_micro_usd_per_hour for m in machines),
            given_up=tuple(placement.given_up),
            faults=placement.faults,
        )

    def _view(self, chosen: list[Pod]) -> _View:
        snapshot = self._snapshot
        axis = ResourceAxis(
            [*(pod.requests for pod in chosen), *(one.requests for one in snapshot.daemon_sets)]
        )
        at = tuple(axis.names)
        if at not in self._views:
            self._views[at] = self._new_view(axis)
        return self._views[at]

    def _new_view(self, axis: ResourceAxis) -> _View:
        snapshot = self._snapshot
        table = TypeTable.of(snapshot.catalogue, axis, snapshot.unavailable, snapshot.shortages)
        templates, refusals = self._templates(snapshot, table)
        targets = existing_targets(snapshot, table, self._bound, self._volumes)
        return _View(
            axis=axis,
            table=table,
            templates=templates,
            refusals=refusals,
            targets=targets,
            columns=TargetColumns(targets, len(axis.names)),
            places={target.name: place for place, target in enumerate(targets)},
            writer=PlanWriter(table, self._settings.max_instance_types),
        )

    def _pools(
        self, view: _View, gone: Set[str], machines: Set[str]
    ) -> tuple[list[PoolTemplate], list[str]]:
        """Limits count the machines that are left."""
        if not self._has_limits:
            return view.templates, view.refusals
        left = replace(
            self._snapshot,
            nodes=tuple(node for node in self._snapshot.nodes if node.name not in gone),
            machines=tuple(one for one in self._snapshot.machines if one.uid not in machines),
        )
        return self._templates(left, view.table)

    def _templates(
        self, snapshot: Snapshot, table: TypeTable
    ) -> tuple[list[PoolTemplate], list[str]]:
        templates, refusals = usable_templates(snapshot, table, self._settings.counting)
        for one in templates:
            one.node_price = node_price(
                one.pool, self._settings.packing_policy, self._settings.node_price_micro_usd
            )
        return templates, refusals

    def _read_by_rules(self, chosen: list[Pod], gone: Set[str]) -> frozenset[str]:
        """The label keys by which pods are one class or several, as in a whole plan."""
        going = chain.from_iterable(self._keys_by_node.get(name, ()) for name in gone)
        missing = {key for key, n in Counter(going).items() if n == self._nodes_with_key[key]}
        return label_keys(chosen) | (self._nodes_with_key.keys() - missing)

    def _whole_topology(self, view: _View) -> WholeTopology:
        if self._topology is None:
            nodes = self._snapshot.nodes
            hosts = {node.name: host_of(node) for node in nodes}
            self._topology = WholeTopology(
                view.templates,
                hosts,
                [hosts[node.name] for node in nodes if not node.terminating],
                bound_pods(self._bound, hosts, self._selected),
                self._owners,
            )
        return self._topology


class Preparing:
    """Prepares the cluster of a pass once. Copies of a ``World`` share it."""

    __slots__ = ("_of", "_prepared", "_settings")

    def __init__(self) -> None:
        self._of: Snapshot | None = None
        self._settings: SolverSettings | None = None
        self._prepared: Prepared | None = None

    def __reduce__(self) -> tuple[type[Preparing], tuple[()]]:
        """Another process prepares its own."""
        return Preparing, ()

    def of(
        self,
        snapshot: Snapshot,
        settings: SolverSettings,
        change: Callable[[Snapshot], Snapshot],
    ) -> Prepared | None:
        """None where each removal needs a whole plan. ``change``: what is changed in the cluster first."""
        if self._of is not snapshot or self._settings != settings:
            self._of, self._settings, self._prepared = snapshot, settings, None
            if may_be_prepared(snapshot, settings):
                self._prepared = Prepared(change(snapshot), settings)
        return self._prepared


def _keys_by_node(owners: Iterable[Pod]) -> dict[str, frozenset[str]]:
    """Node name -> the label keys that rules of its pods read."""
    found: dict[str, list[Pod]] = defaultdict(list)
    for pod in owners:
        found[pod.node_name].append(pod)
    return {name: label_keys(own) for name, own in found.items()}


def _waiting(snapshot: Snapshot, moving: frozenset[str]) -> list[Pod]:
    """Pods that every plan places."""
    found = [pod for pod in without_node(snapshot.pods) if is_provisionable(pod)]
    moved = (pod for pod in snapshot.pods if pod.uid in moving) if moving else ()
    return found + [created_anew(pod) for pod in moved]


def _is_special(pod: Pod) -> bool:
    needs = pod.host_ports or pod.volume_claims or pod.device_claims or pod.claims_devices
    return bool(needs or pod.faults or pod.gang)
