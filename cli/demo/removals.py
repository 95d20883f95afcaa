"""Acts in which Dovetail disrupts machines: consolidation, drift, expiration, and a drain that a budget blocks.

A late replacement may delay the old node, never the pods. The checks read this from the timeline, whose snapshots are
250 ms apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cli.demo import workload
from cli.demo.acts import all_initialized, busiest, is_gone, order_deletion, remember, replaced
from cli.demo.snapshot import NAMESPACE, NodeView, Snapshot, hourly
from cli.demo.stage import Stage
from cli.demo.timeline import Entry
from shared.domain.machines.machine import DRIFTED
from shared.kube.resources import EVENTS, NODE_POOLS, PDBS, PROVISIONERS

POOL = "default"
NODE_READY, NODE_DELETED, NODE_GONE = "node ready", "node deleted", "node gone"


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
