"""The steps that a scenario applies to a running workload: change its nodes, wait for the result, check it.

Each act ends with ``stage.nodes`` and ``stage.pods`` set to the state after it. In four of them Dovetail disrupts
machines: consolidation, drift, expiration, and a drain that a budget blocks. A late replacement may delay the old node,
never the pods. The checks read this from the timeline, whose snapshots are 250 ms apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cli.demo import workload
from cli.demo.snapshot import NAMESPACE, NodeView, Snapshot, hourly
from cli.demo.stage import Stage
from cli.demo.timeline import Entry
from shared.domain.machines.machine import DRIFTED, INITIALIZED
from shared.domain.nodes import provider_instance_id
from shared.kube.resources import EVENTS, NODE_POOLS, NODES, PDBS, PROVISIONERS

POOL = "default"
NODE_READY, NODE_DELETED, NODE_GONE = "node ready", "node deleted", "node gone"


async def interrupt(stage: Stage) -> None:
    """Send a spot notice to the busiest node. Its pods must run again, on another offering."""
    old = busiest(stage)
    async with stage.phase(f"spot interruption notice for {old.name}"):
        await stage.emulator.interrupt(provider_instance_id(old.provider_id))
        await stage.until(
            lambda s: (
                any(m.provider_id == old.provider_id and m.leaving for m in s.machines)
                or all(m.provider_id != old.provider_id for m in s.machines)
            ),
            "the interrupted Machine was not deleted",
        )
    new = await replaced(stage, old)
    pool = (old.instance_type, old.zone)
    avoided = all((node.instance_type, node.zone) != pool for node in new)
    detail = f"{old.instance_type} in {old.zone} is " + ("avoided" if avoided else "bought again")
    stage.check("interrupted offering", avoided, detail)


async def delete_node(stage: Stage) -> None:
    """Delete the busiest Node object. Its finalizer drains and terminates; the pods run on other nodes."""
    old = busiest(stage)
    async with stage.phase(f"kubectl delete node {old.name}"):
        await order_deletion(stage, old)
    await replaced(stage, old)


async def halve(stage: Stage) -> None:
    """Remove half of the pods: consolidation must leave fewer or cheaper nodes (ACC-30, second half)."""
    before, half = stage.nodes, stage.scenario.pods // 2
    async with stage.phase(f"scale inflate to {half}"):
        await workload.scale(stage.kube, half)
        await stage.until(lambda s: s.total == s.running == half, f"not {half} pods run")

    def consolidated(now: Snapshot) -> bool:
        settled = now.running == half and len(now.machines) == len(now.nodes)
        return settled and all_initialized(now) and hourly(now.nodes) < hourly(before)

    async with stage.phase("consolidate: buy smaller, move the pods, delete"):
        await stage.until(consolidated, f"the nodes still cost ${hourly(before):.4f} an hour")
    remember(stage)
    after = stage.nodes
    stage.check("nodes", len(after) <= len(before), f"{len(before)} before, {len(after)} after")
    cost = f"${hourly(before):.4f} an hour before, ${hourly(after):.4f} after"
    stage.check("hourly cost", hourly(after) < hourly(before), cost)


async def relabel(stage: Stage) -> None:
    """Change a label of the template: every node drifts and is replaced, one at a time (ACC-79)."""
    old = stage.nodes
    change = {"spec": {"template": {"metadata": {"labels": {"demo.dovetail.sh/color": "green"}}}}}
    async with stage.phase("another label on the NodePool's template: drift"):
        await stage.kube.patch(NODE_POOLS, POOL, change)
        await stage.until(
            lambda s: any(DRIFTED in machine.reached for machine in s.machines),
            "no NodeClaim got the condition Drifted",
        )
    async with stage.phase("replace the drifted nodes, one after another"):
        await stage.until(
            lambda s: (
                s.running == stage.scenario.pods
                and all(is_gone(s, node) for node in old)
                and all_initialized(s)
            ),
            "the drifted nodes are not all replaced and gone",
        )
    remember(stage)
    _check_order(stage, old)
    ahead = most_ahead(stage.timeline.entries, {node.name for node in old})
    stage.check("one after another", ahead <= 1, f"at most {ahead} replacement(s) ahead of drains")


async def expire(stage: Stage) -> None:
    """Set a maximum age on the pool: the node is replaced first, then drained (ACC-31)."""
    old, seconds = busiest(stage), stage.settings.expire_seconds
    async with stage.phase(f"ttlSecondsUntilExpired: {seconds}; {old.name} grows too old"):
        await stage.kube.patch(PROVISIONERS, POOL, {"spec": {"ttlSecondsUntilExpired": seconds}})
        await stage.until(
            lambda s: (
                any(node.leaving for node in s.nodes if node.name == old.name) or is_gone(s, old)
            ),
            f"{old.name} did not expire",
        )
    await replaced(stage, old)
    _check_order(stage, (old,))


async def blocked_drain(stage: Stage) -> None:
    """A budget that allows nothing holds the drain; allowed, it goes on within its back-off (ACC-34)."""
    old = busiest(stage)
    async with stage.phase("PodDisruptionBudget inflate: maxUnavailable 0"):
        await workload.apply(stage.kube, PDBS, workload.budget(most_unavailable=0))
        await stage.until_true(lambda: _budget_observed(stage), "the budget counts no pods")
    async with stage.phase(f"kubectl delete node {old.name}: the budget holds its drain"):
        await order_deletion(stage, old)
        message = await stage.until_true(
            lambda: _draining_failed(stage, old), "no event explains it"
        )
        stage.note(f"event FailedDraining: {message}", f"node/{old.name}")
    stage.check("event", bool(message), message)
    still = sum(pod.running and pod.node == old.name for pod in stage.snapshot.pods)
    stage.check("pods kept", still == old.pods, f"{still} of {old.pods} pods run on {old.name}")
    allowed_at = stage.timeline.elapsed()
    async with stage.phase("kubectl delete poddisruptionbudget inflate"):
        await stage.kube.delete(PDBS, workload.WORKLOAD, NAMESPACE)
        await stage.until(
            lambda s: all(pod.node != old.name or pod.leaving for pod in s.pods),
            f"{old.name} is not drained although the budget is gone",
        )
    seconds = stage.timeline.elapsed() - allowed_at
    stage.check("allowed again", True, f"drained {seconds:.1f} s later")
    await replaced(stage, old)


async def order_deletion(stage: Stage, old: NodeView) -> None:
    """Delete the Node object and wait for its deletion timestamp. Raises StoryFailed."""
    await stage.kube.delete(NODES, old.name)
    await stage.until(
        lambda s: all(node.leaving for node in s.nodes if node.name == old.name),
        "the node was not marked for deletion",
    )


async def replaced(stage: Stage, old: NodeView) -> tuple[NodeView, ...]:
    """Wait until ``old`` is gone and its pods run on other nodes. Returns the nodes at that time."""
    expected = stage.scenario.pods
    async with stage.phase("drain, replace, terminate"):
        await stage.until(
            lambda s: s.running == expected and is_gone(s, old) and all_initialized(s),
            f"{old.name} is not replaced and gone, with all {expected} pods running elsewhere",
        )
    remember(stage)
    return stage.nodes


def is_gone(snapshot: Snapshot, old: NodeView) -> bool:
    """Whether neither the node nor a live instance of it exists."""
    return all(node.provider_id != old.provider_id for node in snapshot.nodes) and all(
        instance.instance_id != provider_instance_id(old.provider_id)
        for instance in snapshot.live_instances
    )


def all_initialized(snapshot: Snapshot) -> bool:
    """Whether every machine that is not terminating is initialized."""
    machines = [machine for machine in snapshot.machines if not machine.leaving]
    return all(INITIALIZED in machine.reached for machine in machines)


def remember(stage: Stage) -> None:
    """Store the pods and nodes for the report, at the time when the workload is complete."""
    snapshot = stage.snapshot
    stage.pods = (snapshot.total, snapshot.running, snapshot.pending)
    stage.nodes = tuple(node for node in snapshot.nodes if not node.leaving)


def busiest(stage: Stage) -> NodeView:
    """The node with the most pods of the workload."""
    return max(stage.nodes, key=lambda node: (node.pods, node.name))


async def _budget_observed(stage: Stage) -> bool:
    raw = await stage.kube.get(PDBS, workload.WORKLOAD, NAMESPACE)
    return bool((raw.get("status") or {}).get("currentHealthy"))


async def _draining_failed(stage: Stage, node: NodeView) -> str:
    """The message of the node's FailedDraining event; empty if there is none."""
    for event in (await stage.kube.list(EVENTS)).items:
        about = event.get("involvedObject") or {}
        if (event.get("reason"), about.get("name")) == ("FailedDraining", node.name):
            return str(event.get("message", ""))
    return ""


def _check_order(stage: Stage, old: tuple[NodeView, ...]) -> None:
    early = left_early(stage.timeline.entries, {node.name for node in old})
    detail = f"{', '.join(early)} left before that" if early else "before an old node goes"
    stage.check("replacement ready", not early, detail)


def left_early(entries: Iterable[Entry], old: set[str]) -> list[str]:
    """Names of ``old`` nodes that were deleted before the same number of new nodes was ready."""
    return [name for ahead, name in _replacements_ahead(entries, old) if name and ahead < 0]


def most_ahead(entries: Iterable[Entry], old: set[str]) -> int:
    """The largest number of new nodes that were ready before the old nodes that they replace were deleted."""
    return max(ahead for ahead, _ in _replacements_ahead(entries, old))


def _replacements_ahead(entries: Iterable[Entry], old: set[str]) -> Iterator[tuple[int, str]]:
    """After each event: (ready new nodes less deleted old nodes, the old node that was deleted or an empty text)."""
    ahead, left = 0, set[str]()
    yield ahead, ""
    for event, name in _node_events(entries):
        ahead += event == NODE_READY and name not in old
        if event in (NODE_DELETED, NODE_GONE) and name in old - left:
            left.add(name)
            ahead -= 1
            yield ahead, name
        else:
            yield ahead, ""


def _node_events(entries: Iterable[Entry]) -> Iterator[tuple[str, str]]:
    """(event, node name), in the order of the timeline."""
    for entry in entries:
        kind, _, name = entry.object.partition("/")
        if kind == "node":
            yield entry.event, name
