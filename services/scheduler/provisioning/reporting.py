"""What users see of a plan: events on pods and pools, and the log lines beside them (BAT-09, SCH-110..113)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from services.scheduler.provisioning import logs
from services.scheduler.provisioning.backoff import Hold, workload_of
from services.scheduler.state.decisions import DecisionLog
from services.scheduler.state.obstacles import Obstacles
from shared.api.core.references import to_pod, to_pool
from shared.domain.pools.nodepools import NodePool
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.by_node import by_uid, without_node
from shared.domain.workloads.pods import Pod, is_provisionable
from shared.kube.recorder import Recorder
from shared.log import get_logger
from shared.solver.plan import Plan, PlannedMachine
from shared.solver.reasons import NO_DEVICES, no_types, pool_unusable

log = get_logger(__name__)

MOST_POD_EVENTS = 200
"""Per plan and kind. Of pods that no plan places each plan reports as many more as this, until all were reported."""
FAILED_SCHEDULING_SECONDS = 300.0
NO_TYPES_SECONDS = 60.0
NO_POOLS = "no dynamic nodepools found"


@dataclass
class PlanReporter:
    """Writes events and log lines about plans; decides nothing."""

    recorder: Recorder
    last_reasons: dict[str, str]
    """Pod -> why the last plan could not place it, the oldest pod first."""
    decisions: DecisionLog
    obstacles: Obstacles
    _logged_pools: frozenset[str] = frozenset()
    """Pools that the log has named (OPS-22)."""
    _failed_pods: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Pod UID -> why the last plan could not place it, and how often that was reported."""

    async def report(self, plan: Plan, snapshot: Snapshot, created: list[PlannedMachine]) -> None:
        """Report one plan (BAT-09, SCH-110, SCH-111)."""
        pods = by_uid(snapshot.pods)
        logs.created(created)
        self.decisions.plan(plan, created, snapshot)
        for machine in created:
            target = f"{machine.api.machine_noun}/{machine.name}"
            await self._nominated([pods[uid] for uid in machine.pods if uid in pods], target)
        targets = _targets(snapshot)
        for name, uids in plan.existing.items():
            target = targets.get(name, f"node/{name}")
            await self._nominated([pods[uid] for uid in uids if uid in pods], target)
        await self._failed(plan, pods, without_node(snapshot.pods))
        await self._pools(plan, snapshot)

    async def _pools(self, plan: Plan, snapshot: Snapshot) -> None:
        """Pools that can give no machine, whatever pods request (SCH-112, SCH-113, API-04)."""
        empty = [pool for pool in snapshot.pools if _has_no_types(pool, plan)]
        named = {pool.key for pool in empty}
        for pool in empty:
            if pool.key not in self._logged_pools:
                log.info("skipping, no resolved instance types found", pool=pool.key)
            text = "its requirements filter out every instance type that is offered"
            await self.recorder.publish(
                to_pool(pool), "Warning", "NoCompatibleInstanceTypes", text,
                dedupe_seconds=NO_TYPES_SECONDS,
            )  # fmt: skip
        if all(pool.is_static for pool in snapshot.pools):
            named.add(NO_POOLS)
            if NO_POOLS not in self._logged_pools:
                log.info(NO_POOLS)
        self._logged_pools = frozenset(named)

    async def held_back(self, holds: Iterable[Hold], snapshot: Snapshot) -> None:
        """Machines that are not bought because none of the same pods ran on the last ones."""
        pools = {pool.key: pool for pool in snapshot.pools}
        reported = list(holds)[:MOST_POD_EVENTS]
        held = {hold.workload for hold in reported}
        controllers = {
            workload_of(pod): _controller(pod)
            for pod in (snapshot.pods if held else ())
            if workload_of(pod) in held
        }
        texts: dict[tuple[str, str], str] = {}
        for hold in reported:
            pool = pools.get(hold.pool_key)
            if pool is None:
                continue
            text = (
                f"{hold.attempts} time(s) in a row new nodes took no pod of "
                f"{controllers.get(hold.workload, hold.workload)}; the next one waits. See what keeps pods off: "
                f"kubectl describe nodes -l {pool.label_key}={pool.name}, Taints and Events"
            )
            texts[hold.pool_key, hold.workload] = text
            log.warning("launch held back", pool=pool.name, why=text, seconds=round(hold.seconds))
            await self.recorder.publish(to_pool(pool), "Warning", "LaunchHeldBack", text)
        self.obstacles.hold(texts)

    async def _nominated(self, pods: list[Pod], target: str) -> None:
        for pod in pods[:MOST_POD_EVENTS]:
            if is_provisionable(pod) and not pod.virtual:
                await self.recorder.publish(
                    to_pod(pod), "Normal", "Nominated", f"Pod should schedule on: {target}"
                )

    async def _failed(self, plan: Plan, pods: Mapping[str, Pod], unbound: Sequence[Pod]) -> None:
        faulty = {
            pod.uid: "; ".join(pod.faults)
            for pod in unbound
            if pod.faults and is_provisionable(pod)
        }
        reasons = {**plan.unschedulable, **faulty}
        waiting = sorted(
            (pods[uid] for uid in reasons if uid in pods), key=lambda pod: (pod.created_at, pod.key)
        )
        self.last_reasons = {pod.key: reasons[pod.uid] for pod in waiting}
        known = self._failed_pods
        self._failed_pods = {
            uid: known[uid] if known.get(uid, ("",))[0] == reason else (reason, 0)
            for uid, reason in reasons.items()
            if uid in pods
        }
        # The least reported come first: in the end all are reported, then again as long as they wait.
        turns = sorted(self._failed_pods.items(), key=lambda one: one[1][1])
        for uid, (reason, times) in turns[:MOST_POD_EVENTS]:
            self._failed_pods[uid] = reason, times + 1
            await self._report_failed(pods[uid], reason, first=times == 0)

    async def _report_failed(self, pod: Pod, reason: str, *, first: bool) -> None:
        """Once in the log, as events as often as the recorder lets them."""
        if first:
            _log(pod, reason)
        await self.recorder.publish(
            to_pod(pod),
            "Warning",
            "FailedScheduling",
            f"Failed to schedule pod, {reason}",
            dedupe_seconds=FAILED_SCHEDULING_SECONDS,
        )


def _has_no_types(pool: NodePool, plan: Plan) -> bool:
    begin = pool_unusable(pool, no_types(pool))
    return any(fault.startswith(begin) for fault in plan.faults)


def _targets(snapshot: Snapshot) -> dict[str, str]:
    """By the name of a node, or of a machine without one: what events call it (SCH-110)."""
    found = {}
    for machine in snapshot.machines:
        text = f"{machine.api.machine_noun}/{machine.name}"
        node = f", node/{machine.node_name}" if machine.node_name else ""
        found[machine.node_name or machine.name] = text + node
    return found


def _log(pod: Pod, reason: str) -> None:
    """An error, unless the pod is not planned for at all: that is no fault of the cluster (SCH-111, POD-03, POD-08)."""
    if pod.faults:
        log.debug("ignoring pod", pod=pod.key, error=reason)
    elif reason == NO_DEVICES:
        log.info("ignoring pod, DRA is not supported", pod=pod.key)
    else:
        log.error("could not schedule pod", pod=pod.key, reason=reason)


def _controller(pod: Pod) -> str:
    """The controller of the pod, as text for an event."""
    owner = pod.owner
    return f"{owner.kind} {pod.namespace}/{owner.name}" if owner else f"pod {pod.key}"
