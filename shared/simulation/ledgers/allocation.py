"""What each pod costs: its part of the price of its node. Pure; amounts are whole micro-USD an hour.

The rule is the dominant share: a pod's part of a node is the largest of its parts of the node's allocatable resources.
Pods that together have more than the node are scaled down to it. What is left belongs to no pod and is idle. All
charges of a machine add up to its price exactly; so do those of a cluster to what its machines cost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

from shared.disruption.candidates import Prices, offering_prices, price_in
from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.domain.nodes import Node
from shared.domain.resources import PODS
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod

IDLE = "(idle)"
UNLABELLED = "(none)"
HASH_LABEL = "pod-template-hash"
MICRO = 1_000_000
HOURS_OF_MONTH = 730
"""An average month, as AWS' own calculator has it."""


class Charge(NamedTuple):
    """A part of one machine's price. ``pod`` None: nobody asked for it."""

    machine: Machine
    micro_usd_per_hour: int
    pod: Pod | None = None

    @property
    def namespace(self) -> str:
        return self.pod.namespace if self.pod else IDLE

    @property
    def workload(self) -> str:
        """``shop/Deployment/web``."""
        return f"{self.pod.namespace}/{workload_of(self.pod)}" if self.pod else IDLE

    def label(self, key: str) -> str:
        """The pod's value of this label."""
        return self.pod.labels.get(key, UNLABELLED) if self.pod else IDLE


def workload_of(pod: Pod) -> str:
    """Kind and name of what made the pod; of a Deployment's ReplicaSet the Deployment; of a single pod itself."""
    if pod.owner is None:
        return f"Pod/{pod.name}"
    digest = pod.labels.get(HASH_LABEL, "")
    if pod.owner.kind == "ReplicaSet" and digest and pod.owner.name.endswith(f"-{digest}"):
        return f"Deployment/{pod.owner.name.removesuffix(f'-{digest}')}"
    return f"{pod.owner.kind}/{pod.owner.name}"


def price_of(machine: Machine, prices: Prices) -> int | None:
    """Micro-USD an hour of a machine with an instance: of the catalogue, or as noted at the launch; nothing in a
    reservation, which is paid for elsewhere; None when it is not known."""
    if not machine.provider_id:
        return 0
    if machine.capacity_type == keys.RESERVED:
        return 0
    price = price_in(prices, machine)
    return machine.noted_price if price is None else price


def charges(snapshot: Snapshot) -> list[Charge]:
    """Of all machines whose price is known, in the snapshot's order: their pods by name, then what is idle."""
    return charges_of(
        snapshot.machines, snapshot.nodes, snapshot.pods, offering_prices(snapshot.catalogue)
    )


def charges_of(
    machines: Iterable[Machine], nodes: Iterable[Node], pods: Iterable[Pod], prices: Prices
) -> list[Charge]:
    """As ``charges``, from the parts of a snapshot."""
    by_name = {node.name: node for node in nodes}
    on_node: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        if pod.node_name and not pod.is_terminal:
            on_node[pod.node_name].append(pod)
    found: list[Charge] = []
    for machine in machines:
        price = price_of(machine, prices)
        if price:
            node = by_name.get(machine.node_name)
            found += _shared(machine, price, node, on_node[machine.node_name] if node else [])
    return found


def without_price(machines: Iterable[Machine], prices: Prices) -> list[str]:
    """Keys of machines whose price is not known: no ledger counts them."""
    return [machine.key for machine in machines if price_of(machine, prices) is None]


def _shared(machine: Machine, price: int, node: Node | None, pods: Iterable[Pod]) -> list[Charge]:
    room = (node.allocatable if node else {}) or machine.allocatable
    parts = [(pod, dominant_share(pod, room)) for pod in sorted(pods, key=lambda one: one.key)]
    whole = max(Fraction(1), sum((part for _, part in parts), Fraction(0)))
    found = [Charge(machine, int(price * part / whole), pod) for pod, part in parts if part]
    left = price - sum(one.micro_usd_per_hour for one in found)
    if whole > 1 and found:
        # Only what rounding left: nothing of the node is idle.
        last = found[-1]
        found[-1] = last._replace(micro_usd_per_hour=last.micro_usd_per_hour + left)
        return found
    return [*found, Charge(machine, left)] if left else found


def dominant_share(pod: Pod, room: Mapping[str, int]) -> Fraction:
    """The largest part that the pod asks of any resource of its node; the number of pods is none."""
    parts = (
        Fraction(amount, room[name])
        for name, amount in pod.requests.items()
        if name != PODS and room.get(name, 0) > 0
    )
    return max(parts, default=Fraction(0))


def summed(found: Iterable[Charge], by: str) -> dict[str, int]:
    """Micro-USD an hour by ``pool``, ``namespace``, ``workload`` or ``label=KEY``, dearest first."""
    totals: defaultdict[str, int] = defaultdict(int)
    for charge in found:
        totals[name_of(charge, by)] += charge.micro_usd_per_hour
    return dict(sorted(totals.items(), key=lambda one: (-one[1], one[0])))


def name_of(charge: Charge, by: str) -> str:
    """What the charge counts for, by ``pool``, ``namespace``, ``workload`` or ``label=KEY``."""
    if by == "pool":
        return charge.machine.pool_key or UNLABELLED
    if by == "namespace":
        return charge.namespace
    return charge.workload if by == "workload" else charge.label(by.removeprefix("label="))
