"""Is a consolidation command possible and right? Checked without the planner: by counting what fits where."""

from __future__ import annotations

from collections import Counter

from shared.disruption.global_consolidation.churn import Churn
from shared.disruption.methods.consolidation import eligible
from shared.disruption.records import Command, World
from shared.domain.pools.nodepools import UNDERUTILIZED
from shared.domain.workloads.pods import Pod
from shared.solver.plan import PlannedMachine

COUNTED = ("cpu", "memory", "pods")


def faults(world: World, command: Command, churn: Churn) -> list[str]:
    """The faults of a command, for a cluster of one pool without rules between pods; empty if there are none."""
    found = []
    known = {c.machine.uid for c in eligible(world)[0]}
    if not {c.machine.uid for c in command.candidates} <= known:
        found.append("takes a machine that is not eligible")
    for pool, count in Counter(c.machine.pool_key for c in command.candidates).items():
        if count > world.left(pool, UNDERUTILIZED):
            found.append(f"{count} machines of {pool} are more than its budget allows")
    if any(churn.is_too_new(c, now=world.now) for c in command.candidates):
        found.append("takes a machine that was bought a moment ago")
    return found + _money(world, command, churn) + _places(world, command)


def _money(world: World, command: Command, churn: Churn) -> list[str]:
    """What it says it saves is the difference of prices, pays for the moves, and holds whatever is launched."""
    old = sum(c.price_micro_usd_per_hour or 0 for c in command.candidates)
    new = sum(m.offering.price_micro_usd_per_hour for m in command.replacements)
    moved = sum(len(c.pods) for c in command.candidates)
    found = []
    if command.saving_micro_usd_per_hour != old - new:
        found.append("the saving is not the difference of prices")
    if command.moved_pods != moved:
        found.append("the pods to move are counted wrongly")
    if old - sum(_dearest(world, m) for m in command.replacements) <= churn.required_saving(moved):
        found.append("what is launched may save too little for its moves")
    return found


def _dearest(world: World, planned: PlannedMachine) -> int:
    kinds = {kind.name: kind for kind in world.snapshot.catalogue.types}
    return max(
        offering.price_micro_usd_per_hour
        for name in planned.instance_types
        for offering in kinds[name].offerings
        if offering.capacity_type == planned.offering.capacity_type
    )


def _places(world: World, command: Command) -> list[str]:
    """Each moved pod is on one new machine whose every type holds it, or finds room first-fit on what stays."""
    kinds = {kind.name: kind for kind in world.snapshot.catalogue.types}
    pods = {pod.uid: pod for c in command.candidates for pod in c.pods}
    bought = [uid for machine in command.replacements for uid in machine.pods]
    found = [] if len(bought) == len(set(bought)) else ["a pod is on two machines"]
    for machine in command.replacements:
        content = Counter[str]()
        for uid in machine.pods:
            content.update(pods[uid].requests)
        sizes = (kinds[name].allocatable() for name in machine.instance_types)
        if any(content[r] > size[r] for size in sizes for r in COUNTED):
            found.append(f"{machine.name} may become too small for its pods")
    rest = [pod for uid, pod in pods.items() if uid not in bought]
    return found + _first_fit(world, command, rest)


def _first_fit(world: World, command: Command, pods: list[Pod]) -> list[str]:
    gone = {c.node.name for c in command.candidates}
    room = {
        node.name: Counter({r: node.allocatable[r] for r in COUNTED})
        for node in sorted(world.snapshot.nodes, key=lambda node: node.name)
        if node.name not in gone and not node.unschedulable
    }
    for pod in world.snapshot.pods:
        if pod.node_name in room:
            room[pod.node_name].subtract({r: pod.requests.get(r, 0) for r in COUNTED})
    zones = {node.name: node.labels for node in world.snapshot.nodes}
    for pod in sorted(pods, key=lambda p: (-p.requests["cpu"], -p.requests["memory"], p.uid)):
        for name, left in room.items():
            suits = all(zones[name].get(k) == v for k, v in pod.node_selector.items())
            if suits and all(left[r] >= pod.requests.get(r, 0) for r in COUNTED):
                left.subtract({r: pod.requests.get(r, 0) for r in COUNTED})
                break
        else:
            return [f"{pod.name} has no place"]
    return []
