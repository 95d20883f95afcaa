"""The cluster's nodes, pools and instance types as gauges: pure (MET-03, MET-05, MET-08, MET-10, provisioner_* of
MET-12).

The answer is Prometheus text, not objects: 2,000 nodes have 30,000 series. Nothing here reads a clock; the age of a
node is computed from its creation when somebody scrapes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Set
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from shared.disruption.candidates import Prices, price_in
from shared.domain import labels as keys
from shared.domain.devices.inventory import PublishedDevices
from shared.domain.devices.records import ResourceClaim, ResourceSlice
from shared.domain.instance_types.types import Catalogue
from shared.domain.machines.machine import Machine
from shared.domain.nodes import Node
from shared.domain.pools.nodepools import NodePool
from shared.domain.resources import CPU, MEMORY, Resources
from shared.domain.snapshot import OfferingKey
from shared.domain.workloads.pods import Pod
from shared.metrics import cluster as names
from shared.metrics.exposition.text import Rows, block, labelled

Amounts = dict[str, int]
Totals = Mapping[str, Mapping[str, int]]
"""Node name -> resource -> amount."""
NOTHING: dict[str, int] = {}
MOST_NAMESPACES = 200
MOST_DRIVERS = 50
OTHERS = "(others)"
DEVICE_STATES = ("held", "free")
_POOL, _OLD_POOL = names.USAGE.labels, names.OLD_USAGE.labels


class Labelled(NamedTuple):
    """A node and the label text that its gauges share."""

    node: Node
    text: str


def requests_of(pods: Iterable[Pod]) -> tuple[Totals, Totals]:
    """(of all pods, of daemons) by node."""
    everything: defaultdict[str, Amounts] = defaultdict(dict)
    daemons: defaultdict[str, Amounts] = defaultdict(dict)
    for pod in pods:
        if not pod.node_name:
            continue
        for totals in (everything, daemons) if pod.is_daemon else (everything,):
            total = totals[pod.node_name]
            for resource, amount in pod.requests.items():
                total[resource] = total.get(resource, 0) + amount
    return everything, daemons


def labelled_nodes(nodes: Iterable[Node]) -> list[Labelled]:
    """Of all nodes, ours or not."""
    return [Labelled(node, _label_text(node)) for node in nodes]


def node_text(nodes: Iterable[Labelled], everything: Totals, daemons: Totals) -> str:
    """What nodes have and what pods request of it: a row per resource that a node has."""
    rows: tuple[list[tuple[str, float]], ...] = ([], [], [], [])
    for node, labels in nodes:
        requested, of_daemons = everything.get(node.name, NOTHING), daemons.get(node.name, NOTHING)
        for resource, whole in node.capacity.items():
            if not whole:
                continue
            text = f"{labels},{_resource_text(resource)}"
            left = node.allocatable.get(resource, 0)
            amounts = (left, requested.get(resource, 0), of_daemons.get(resource, 0), whole - left)
            for column, amount in zip(rows, amounts, strict=True):
                column.append((text, _in_units(resource, amount)))
    gauges = (names.ALLOCATABLE, names.POD_REQUESTS, names.DAEMON_REQUESTS, names.OVERHEAD)
    return "".join(map(block, gauges, rows))


def lifetime_text(nodes: Iterable[Labelled], *, now: float) -> str:
    """``now`` in seconds since the epoch."""
    ages = ((text, round(max(0.0, now - node.created_at))) for node, text in nodes)
    return block(names.LIFETIME, ages)


def pool_text(pools: Iterable[NodePool], machines: Iterable[Machine], prices: Prices) -> str:
    """Usage, limits and cost; a NodePool and a Provisioner of one name count together under v1's names."""
    usage: Counter[tuple[str, str]] = Counter()
    limits: Counter[tuple[str, str]] = Counter()
    old_usage: dict[tuple[str, str], int] = {}
    old_limits: dict[tuple[str, str], int] = {}
    costs = dict.fromkeys((pool.name for pool in pools), 0)
    for pool in pools:
        usage.update(_by_resource(pool.name, pool.usage))
        limits.update(_by_resource(pool.name, pool.limits))
        if pool.api.older_names:
            old_usage |= _by_resource(pool.name, pool.usage)
            old_limits |= _by_resource(pool.name, pool.limits)
    for machine in machines:
        if machine.provider_id and machine.pool in costs:
            costs[machine.pool] += price_in(prices, machine) or 0
    percent = {
        key: 100 * old_usage.get(key, 0) / limit if limit else 100.0
        for key, limit in old_limits.items()
    }
    return "".join((
        block(names.USAGE, _pool_rows(_POOL, usage)),
        block(names.LIMIT, _pool_rows(_POOL, limits)),
        block(names.COST, ((labelled(("nodepool",), (n,)), c / 1e6) for n, c in costs.items())),
        block(names.OLD_USAGE, _pool_rows(_OLD_POOL, old_usage)),
        block(names.OLD_LIMIT, _pool_rows(_OLD_POOL, old_limits)),
        block(
            names.OLD_USAGE_PERCENT,
            (
                (labelled(_OLD_POOL, (pool, _spelled(resource))), round(value, 2))
                for (pool, resource), value in percent.items()
            ),
        ),
    ))  # fmt: skip


def namespace_text(costs: Mapping[str, int]) -> str:
    """``costs``: namespace -> micro-USD an hour, dearest first; of many the dearest, and the others together."""
    named = dict(islice(costs.items(), MOST_NAMESPACES))
    others = sum(costs.values()) - sum(named.values())
    if others:
        named[OTHERS] = others
    rows = ((labelled(("namespace",), (name,)), micro / 1e6) for name, micro in named.items())
    return block(names.NAMESPACE_COST, rows)


def device_text(slices: Iterable[ResourceSlice], claims: Iterable[ResourceClaim]) -> str:
    """Devices and claims of dynamic resource allocation; of many drivers the first by name, and the others
    together."""
    listed = tuple(claims)
    found: Counter[tuple[str, str]] = Counter()
    for at, (driver, numbers) in enumerate(PublishedDevices(slices, listed).counts().items()):
        name = driver if at < MOST_DRIVERS else OTHERS
        for state, number in zip(DEVICE_STATES, numbers, strict=True):
            found[name, state] += number
    text = block(names.DEVICES, ((labelled(names.DEVICES.labels, k), n) for k, n in found.items()))
    states = Counter("allocated" if one.is_allocated else "waiting" for one in listed)
    rows = ((labelled(names.DEVICE_CLAIMS.labels, (k,)), n) for k, n in states.items())
    return text + block(names.DEVICE_CLAIMS, rows)


def cluster_text(nodes: tuple[Node, ...], everything: Totals) -> str:
    """All nodes together, ours or not (MET-08)."""
    allocatable: Counter[str] = Counter()
    requested: Counter[str] = Counter()
    for node in nodes:
        allocatable.update(node.allocatable)
        requested.update(everything.get(node.name, {}))
    rows = (
        (_resource_text(resource), round(100 * requested[resource] / whole, 2))
        for resource, whole in allocatable.items()
        if whole
    )
    return block(names.NODE_COUNT, [("", len(nodes))]) + block(names.UTILIZATION, rows)


def type_text(catalogue: Catalogue, unavailable: Set[OfferingKey], *, old: bool) -> str:
    """Sizes, prices and shortages of what can be bought (MET-10). Of namesakes, as reservations are, the cheapest.
    ``old``: prices under the name of v0.31 too, 10,000 lines more in a large region."""
    kinds = [(kind, labelled(("instance_type",), (kind.name,))) for kind in catalogue.types]
    prices: dict[tuple[str, str, str], int] = {}
    for kind, _ in kinds:
        for offering in kind.offerings:
            key = (kind.name, offering.capacity_type, offering.zone)
            price = offering.price_micro_usd_per_hour
            prices[key] = min(price, prices.get(key, price))
    offerings = {key: labelled(names.PRICE.labels, key) for key in prices}
    dollars = [(offerings[key], price / 1e6) for key, price in prices.items()]
    there = ((text, int((k[1], k[0], k[2]) not in unavailable)) for k, text in offerings.items())
    return "".join((
        block(names.CPU_CORES, ((text, _in_units(CPU, kind.capacity.get(CPU, 0))) for kind, text in kinds)),
        block(names.MEMORY_BYTES, ((text, kind.capacity.get(MEMORY, 0)) for kind, text in kinds)),
        block(names.AVAILABLE, there),
        block(names.PRICE, dollars),
        block(names.OLD_PRICE, dollars) if old else "",
    ))  # fmt: skip


def sync_text(*, synced: bool, seconds: float) -> str:
    """Whether the picture may be acted on (OPS-13). ``seconds``: since it last could be."""
    late = 0.0 if synced else round(seconds, 1)
    return block(names.SYNCED, [("", int(synced))]) + block(names.UNSYNCED_SECONDS, [("", late)])


@lru_cache(maxsize=1000)
def _resource_text(resource: str) -> str:
    return labelled(("resource_type",), (_spelled(resource),))


def _label_text(node: Node) -> str:
    """Without labels that the node does not have: to Prometheus an empty one and none are the same."""
    own = (node.name, "", str(node.is_managed).lower(), node.pool or names.NOBODYS)
    pool = node.labels.get(keys.PROVISIONER_NAME) or names.NOBODYS
    known = tuple(node.labels.get(key, "") for key in names.WELL_KNOWN.values())
    text = labelled(names.NODE_LABELS[:5], (*own, pool))
    shared = _shared_text(*known)
    return f"{text},{shared}" if shared else text


@lru_cache(maxsize=1000)
def _shared_text(*values: str) -> str:
    """Nodes of one type and zone have the same text."""
    known = [pair for pair in zip(names.WELL_KNOWN, values, strict=True) if pair[1]]
    return labelled([name for name, _ in known], [value for _, value in known])


def _by_resource(pool: str, amounts: Resources) -> dict[tuple[str, str], int]:
    return {(pool, resource): amount for resource, amount in amounts.items()}


def _pool_rows(labels: tuple[str, ...], amounts: Mapping[tuple[str, str], int]) -> Rows:
    return (
        (labelled(labels, (pool, _spelled(resource))), _in_units(resource, amount))
        for (pool, resource), amount in amounts.items()
    )


def _spelled(resource: str) -> str:
    """``ephemeral_storage``, as Karpenter spells it in labels."""
    return resource.lower().replace("-", "_")


def _in_units(resource: str, amount: int) -> float:
    """Cores, bytes or pieces, as in Karpenter's metrics. ``amount``: CPU in milli-cores."""
    return amount / 1000 if resource == CPU else amount
