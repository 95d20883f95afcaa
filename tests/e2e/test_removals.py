"""What makes a machine go or stay, on a running stack, by kubectl.

ACC-30 to ACC-32, ACC-35, ACC-37, ACC-38, ACC-72 and ACC-73.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from shared.concurrency.clock import parse_rfc3339
from shared.domain import labels as keys
from shared.domain.machines.machine import DRIFTED, EMPTY
from shared.kube.resources import DAEMON_SETS, PODS
from tests.support.cluster.kubectl import NEEDS_KUBECTL
from tests.support.stories.playground import NAMESPACE, Playground, ShellKubectl, is_leaving, until
from tests.support.stories.scale_down import (
    CONSOLIDATE,
    Json,
    Pool,
    dovetail,
    family,
    has_condition,
    hourly,
    instance_type,
    is_initialized,
    name_of,
    owner,
    passes,
)

pytestmark = [
    pytest.mark.e2e,
    NEEDS_KUBECTL,
]
NewPool = Callable[..., Pool]


@pytest.fixture
def provisioner(playground: Playground, kubectl: ShellKubectl) -> NewPool:
    return lambda name: Pool(playground, kubectl, "Provisioner", name)


@pytest.fixture
def node_pool(playground: Playground, kubectl: ShellKubectl) -> NewPool:
    return lambda name: Pool(playground, kubectl, "NodePool", name)


async def test_30_half_empty_nodes_stay_with_a_ttl_and_collapse_with_consolidation(
    playground: Playground, provisioner: NewPool
) -> None:
    """A twentieth of the seed's 400 -> 200 pods, which the demo plays whole."""
    pool = provisioner("halved")
    await pool.apply_class()
    await pool.apply(family("c5"), ttlSecondsAfterEmpty=1)
    await pool.run(2)
    await pool.serving(2)
    await pool.scale(20)
    before = await pool.serving(20, nodes=2)
    cost = hourly(await playground.look())
    await pool.scale(10)
    assert {name_of(node) for node in await pool.serving(10, nodes=2)} == set(map(name_of, before))
    await passes(playground, 4)
    assert not any(map(is_leaving, await pool.nodes()))
    await pool.change(ttlSecondsAfterEmpty=None, consolidation={"enabled": True})
    (left,) = await pool.serving(10)
    assert left
    assert hourly(await playground.look()) < cost


async def test_31_32_35_methods_come_in_order_and_a_pod_that_may_not_be_evicted_stays(
    playground: Playground, provisioner: NewPool
) -> None:
    """Everything is due while disruption is halted. Resumed: Expiration, Drift, Emptiness, Consolidation; each
    cordons, buys ahead, waits until it is ready, deletes and waits for the end (32, EXE-07). The TTLs of emptiness and
    of expiration go together (31). do-not-evict holds all of it, and an explicit deletion waits for it (35)."""
    old, drifted, empty, large, held = map(
        provisioner, ("old", "drifted", "empty", "large", "held")
    )
    never: Json = {"ttlSecondsAfterEmpty": None}
    both: Json = {"ttlSecondsAfterEmpty": 60, "ttlSecondsUntilExpired": 2592000}
    mark = {keys.DO_NOT_EVICT: "true"}
    await old.apply_class()
    async with asyncio.TaskGroup() as group:
        for pool, market, pods, spec, notes in (
            (old, "m5", 1, both, {}),
            (drifted, "m6i", 1, never, {}),
            (empty, "r5", 1, {"ttlSecondsAfterEmpty": 1}, {}),
            (large, "c5", 6, never, {}),
            (held, "r6i", 1, never, mark),
        ):
            group.create_task(start(pool, market, pods, spec, notes))
    await dovetail(playground, "halt")
    await make_all_due(old, drifted, empty, large, held)
    before = len(playground.logged("scheduler"))
    (expired,) = await old.machines()
    ahead = asyncio.create_task(replaced_before_it_goes(old, name_of(expired)))
    await dovetail(playground, "resume")
    order = ["expiration", "drift", "emptiness", "consolidation"]
    assert (
        await until(lambda: methods_since(playground, before, len(order)), "four methods") == order
    )
    await ahead
    await explicit_deletion_waits(held)


async def start(pool: Pool, market: str, pods: int, spec: Json, notes: Json) -> None:
    await pool.apply(family(market), **spec)
    await pool.run(pods, annotations=notes)
    await pool.serving(pods)


async def make_all_due(old: Pool, drifted: Pool, empty: Pool, large: Pool, held: Pool) -> None:
    async with asyncio.TaskGroup() as group:
        for change in (
            held.change(ttlSecondsUntilExpired=1, consolidation={"enabled": True}),
            drifted.change(labels={"example.com/color": "green"}),
            empty.scale(0),
            large.change(consolidation={"enabled": True}),
            large.scale(1),
        ):
            group.create_task(change)
    seconds = round(time.time() - age_of((await old.machines())[0])) + 2
    await old.change(ttlSecondsUntilExpired=seconds)

    async def all_due() -> bool:
        (first,), (second,), (third,) = (
            await drifted.machines(),
            await empty.machines(),
            await old.machines(),
        )
        aged = time.time() - age_of(third) > seconds
        return aged and has_condition(first, DRIFTED) and has_condition(second, EMPTY)

    await until(all_due, "everything is due")
    await large.serving(1)


def age_of(raw: Json) -> float:
    """Seconds since the epoch at which it was made."""
    return parse_rfc3339(raw["metadata"]["creationTimestamp"])


async def methods_since(playground: Playground, before: int, count: int) -> list[str]:
    """Methods of the commands begun since then, each once, in the order of their first."""
    found: list[str] = []
    for line in playground.logged("scheduler")[before:]:
        if line.startswith("deprovisioning via "):
            method = line.split()[2]
            method = "consolidation" if method.endswith("-node") else method
            found += [method] if method not in found else []
    return found if len(found) >= count else []


async def replaced_before_it_goes(pool: Pool, old: str) -> None:
    """Cordoned, and another machine initialised, when it begins to go."""
    cordoned = False

    async def goes() -> list[Json]:
        nonlocal cordoned
        cordoned = cordoned or any(node["spec"].get("unschedulable") for node in await pool.nodes())
        machines = await pool.machines()
        here = [machine for machine in machines if name_of(machine) == old]
        return [] if here and not is_leaving(here[0]) else machines

    machines = await until(goes, f"{old} goes")
    assert cordoned
    assert any(
        is_initialized(one) and not is_leaving(one) for one in machines if name_of(one) != old
    )


async def explicit_deletion_waits(pool: Pool) -> None:
    """ACC-35: a pod that must not be evicted."""
    (node,) = await pool.nodes()
    assert not is_leaving(node)
    await pool.kubectl("delete", "node", name_of(node), "--wait=false")
    assert keys.DO_NOT_EVICT in await pool.told("FailedDraining", name_of(node))
    (pod,) = [p for p in await pool.pods() if p["spec"]["nodeName"] == name_of(node)]
    await pool.kubectl("annotate", "pod", name_of(pod), f"{keys.DO_NOT_EVICT}-")

    async def away() -> bool:
        return name_of(node) not in map(name_of, await pool.nodes())

    await until(away, "the node is gone")


def daemon_set(cpu: str) -> Json:
    """Kept off Fargate by a label that nobody defines here (38)."""
    away = {"key": "eks.amazonaws.com/compute-type", "operator": "NotIn", "values": ["fargate"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [away]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    container = {"name": "agent", "image": "agent", "resources": {"requests": {"cpu": cpu}}}
    template = {
        "metadata": {"labels": {"app": "agent"}},
        "spec": {
            "affinity": affinity,
            "containers": [container],
            "nodeSelector": {keys.NODE_POOL: "daemons"},
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template},
    }


async def test_37_38_a_new_daemon_set_waits_for_the_next_node(
    playground: Playground, kubectl: ShellKubectl, node_pool: NewPool
) -> None:
    """37: no room on the old node, no new node for it; the next node has room. 38: its affinity counts for nothing."""
    pool = node_pool("daemons")
    await pool.apply_class()
    await pool.apply(family("c6a"))
    await pool.run(1)
    (old,) = await pool.serving(1)

    async def agents() -> dict[str, str]:
        listed = (await playground.kube.list(PODS, NAMESPACE, label_selector="app=agent")).items
        return {
            p["spec"].get("nodeName", ""): str((p.get("status") or {}).get("phase")) for p in listed
        }

    try:
        await kubectl.apply(daemon_set("1500m"))
        await until(agents, "a daemon pod exists")
        await passes(playground, 3)
        assert "Running" not in (await agents()).values()
        assert list(map(name_of, await pool.serving(1))) == [name_of(old)]
        await kubectl("delete", "node", name_of(old), "--wait=true", "--timeout=120s")
        (new,) = await pool.serving(1)

        async def runs() -> bool:
            return (await agents()).get(name_of(new)) == "Running"

        await until(runs, "the daemon pod runs beside")
        assert instance_type(new) != instance_type(old)
    finally:
        await playground.kube.delete(DAEMON_SETS, "agent", NAMESPACE)


async def test_72_73_a_replacement_of_on_demand_is_spot_and_spot_is_not_replaced_by_spot(
    playground: Playground, node_pool: NewPool
) -> None:
    """73: both markets allowed, so the replacement asks for spot alone. 72, gate off: the event; what the gate lets
    through is in ``tests/shared/disruption/methods/test_consolidation.py``."""
    pool = node_pool("markets")
    await pool.apply_class()
    await pool.apply(family("m6a"), disruption={**CONSOLIDATE, "budgets": [{"nodes": "100%"}]})
    await pool.run(12)
    (old,) = await pool.serving(12)
    both = {"template": {"spec": {"requirements": family("m6a", keys.SPOT, keys.ON_DEMAND)}}}
    await pool.change(**both)
    await pool.scale(6)

    async def bought() -> Json:
        return next((m for m in await pool.machines() if name_of(m) != owner(old)), {})

    replacement = await until(bought, "a replacement")
    markets = [r for r in replacement["spec"]["requirements"] if r["key"] == keys.CAPACITY_TYPE]
    assert [one["values"] for one in markets] == [[keys.SPOT]]

    async def moved() -> list[Json]:
        nodes = await pool.serving(6)
        return [] if name_of(nodes[0]) == name_of(old) else nodes

    (spot,) = await until(moved, "the pods are on spot")
    assert spot["metadata"]["labels"][keys.CAPACITY_TYPE] == keys.SPOT
    await pool.scale(1)
    text = await pool.told("Unconsolidatable", name_of(spot))
    assert text == "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node"
    assert list(map(name_of, await pool.serving(1))) == [name_of(spot)]


async def test_a_minimum_stays_without_pods_until_the_pool_closes(
    kubectl: ShellKubectl, node_pool: NewPool
) -> None:
    """A machine that somebody deletes is bought again, and nothing that is kept counts as empty."""
    pool = node_pool("kept")
    await pool.apply_class()
    await pool.apply(family("m6a"), disruption=CONSOLIDATE)
    annotate = ("annotate", "nodepool", pool.name, "--overwrite")
    await kubectl(*annotate, "dovetail.sh/minimum=nodes: 2")
    first, second = await pool.serving(0, nodes=2)
    await passes(pool.ground, 3)
    await kubectl("delete", "nodeclaim", owner(first), "--wait=true", "--timeout=120s")
    left = set(map(name_of, await pool.serving(0, nodes=2)))
    assert name_of(second) in left
    assert name_of(first) not in left
    leap_day = "{schedule: 0 0 29 2 *, duration: 1m}"
    await kubectl(*annotate, f"dovetail.sh/hours={leap_day}", "dovetail.sh/outside-hours=drain")
    await pool.gone()
