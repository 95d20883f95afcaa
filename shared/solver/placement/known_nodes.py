"""What plans read of nodes and of the pods that stay on them, kept from one plan to the next.

One pass of disruption plans the same cluster many times, each time without other machines, and between two rounds few
nodes change. A record that did not change is the same object in both snapshots, so objects are compared, not values:
what was worked out from the very same records holds again. What may go wrong: another cluster's node has the same name.
Then its records are other objects, and it takes the place of the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from shared.domain import labels as keys
from shared.domain.expressions import Taint
from shared.domain.machines.machine import INITIALIZED as MACHINE_INITIALIZED
from shared.domain.machines.machine import Machine
from shared.domain.nodes import DaemonSet, Node, is_ephemeral
from shared.domain.requirements import Requirements
from shared.domain.resources import Resources, add, subtract, sum_of
from shared.domain.workloads.kept import Known, same
from shared.domain.workloads.pods import Pod
from shared.solver.encode import Amounts, ResourceAxis
from shared.solver.pod_classes import effective_requests
from shared.solver.pools.daemons import remaining_on_node
from shared.solver.ports import HostPort
from shared.solver.topology.hosts import Host

_MOST_ROOMS = 8


@dataclass(frozen=True, slots=True, eq=False)
class NodeState:
    """``room``: what new pods may still use. No plan changes any of it."""

    host: Host
    taints: tuple[Taint, ...]
    room: Resources
    initialized: bool
    ports: tuple[HostPort, ...]
    _rooms: dict[tuple[str, ...], Amounts] = field(default_factory=dict)

    def room_in(self, axis: ResourceAxis) -> Amounts:
        """``room`` by column; not to be written to. Kept for a few sets of columns: each plan has its own axis."""
        found = self._rooms.get(axis.columns)
        if found is None:
            if len(self._rooms) >= _MOST_ROOMS:
                self._rooms.clear()
            found = self._rooms[axis.columns] = axis.vector(self.room)
            found.flags.writeable = False
        return found


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    node: Node
    machine: Machine | None
    pods: Sequence[Pod]
    daemon_sets: tuple[DaemonSet, ...]
    state: NodeState

    def is_of(
        self,
        node: Node,
        machine: Machine | None,
        pods: Sequence[Pod],
        daemon_sets: tuple[DaemonSet, ...],
    ) -> bool:
        return (
            self.node is node
            and self.machine is machine
            and same(self.pods, pods)
            # Each plan may make its own of these: a few, with the requests of their newest pods.
            and self.daemon_sets == daemon_sets
        )


_hosts = Known[str, tuple[Node, Host]]()
_states = Known[str, tuple[_Known, ...]]()
"""The last two of each node: plans read its pods as they are, and simulations of removals read them folded."""


def forget_gone(nodes: int) -> None:
    """Begin anew when most of what is known is of nodes that are gone. ``nodes``: how many there are."""
    _hosts.forget_gone(nodes)
    _states.forget_gone(nodes)


def host_of(node: Node) -> Host:
    """The node with its labels, which are final."""
    known = _hosts.get(node.name)
    # Simulations cordon copies of nodes, which share these.
    if known is not None and known[0].labels is node.labels and known[0].taints is node.taints:
        return known[1]
    name = node.labels.get(keys.HOSTNAME, node.name)
    labels = Requirements.of(labels={**node.labels, keys.HOSTNAME: name})
    host = Host(name, labels, taints=node.taints)
    _hosts[node.name] = node, host
    return host


def state_of(
    node: Node, machine: Machine | None, pods: Sequence[Pod], daemon_sets: tuple[DaemonSet, ...]
) -> NodeState:
    """``pods``: those that stay on the node."""
    before = _states.get(node.name, ())
    for known in before:
        if known.is_of(node, machine, pods, daemon_sets):
            return known.state
    state = _state(node, machine, pods, daemon_sets)
    _states[node.name] = (_Known(node, machine, pods, daemon_sets, state), *before[:1])
    return state


def _state(
    node: Node, machine: Machine | None, pods: Sequence[Pod], daemon_sets: tuple[DaemonSet, ...]
) -> NodeState:
    initialized = _is_initialized(node, machine)
    taints = node.taints if initialized else _without_temporary_taints(node.taints, machine)
    host = host_of(node)
    used = sum_of(effective_requests(pod.requests) for pod in pods)
    daemons = [pod for pod in pods if pod.is_daemon]
    coming = remaining_on_node(
        daemon_sets, taints, host.requirements, daemons, joining=not initialized
    )
    room = subtract(_allocatable(node, machine, initialized), add(used, coming))
    ports = tuple(port for pod in pods for port in pod.host_ports)
    return NodeState(host, taints, room, initialized, ports)


def _is_initialized(node: Node, machine: Machine | None) -> bool:
    if not node.is_managed:
        return True
    return node.is_initialized or (machine is not None and machine.has(MACHINE_INITIALIZED))


def _without_temporary_taints(
    taints: tuple[Taint, ...], machine: Machine | None
) -> tuple[Taint, ...]:
    """The taints that remain after initialization: without startup and ephemeral taints (SCH-52). All of them on a node
    without a machine, whose initialization nobody finishes."""
    if machine is None:
        return taints
    return tuple(t for t in taints if not is_ephemeral(t) and t not in machine.startup_taints)


def _allocatable(node: Node, machine: Machine | None, initialized: bool) -> Resources:
    """Until initialization, amounts that the node reports as zero are taken from its machine (SCH-51)."""
    if initialized or machine is None:
        return node.allocatable
    reported = {name: amount for name, amount in node.allocatable.items() if amount}
    return {**machine.allocatable, **reported}
