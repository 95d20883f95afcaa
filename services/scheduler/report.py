"""Tells people what a plan decided: pod events Nominated and FailedScheduling, and one log line per new Machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from services.scheduler.futility import Hold, workload_of
from shared.api.references import to_pod, to_pool
from shared.domain.pods import Pod, is_provisionable
from shared.domain.resources import format_resources
from shared.domain.snapshot import Snapshot
from shared.kube.recorder import Recorder
from shared.log import get_logger
from shared.solver.plan import Plan, PlannedMachine

log = get_logger(__name__)

MOST_POD_EVENTS = 200
"""Per plan and kind; the events say the same for 10,000 pods of one Deployment."""
NAMES_SHOWN = 5
FAILED_SCHEDULING_SECONDS = 300.0


def some(names: Iterable[str]) -> str:
    """``a, b, c, d, e and 3 other(s)`` (BAT-09)."""
    listed = list(names)
    text = ", ".join(listed[:NAMES_SHOWN])
    rest = len(listed) - NAMES_SHOWN
    return f"{text} and {rest} other(s)" if rest > 0 else text


@dataclass
class Reporter:
    """Writes events and logs about plans."""

    recorder: Recorder
    last_reasons: dict[str, str]

    async def tell(self, plan: Plan, snapshot: Snapshot, created: list[PlannedMachine]) -> None:
        """Report one plan (BAT-09, SCH-110, SCH-111)."""
        pods = {pod.uid: pod for pod in snapshot.pods}
        for machine in created:
            log.info(
                "created machine",
                pool=machine.pool,
                machine=machine.name,
                pods=len(machine.pods),
                requests=format_resources(machine.requests),
                instance_types=some(machine.instance_types),
            )
        for machine in created:
            target = f"machine/{machine.name}"
            await self._nominated([pods[uid] for uid in machine.pods if uid in pods], target)
        for name, uids in plan.existing.items():
            await self._nominated([pods[uid] for uid in uids if uid in pods], f"node/{name}")
        await self._failed(plan, pods)

    async def held_back(self, holds: Iterable[Hold], snapshot: Snapshot) -> None:
        """Machines that are not bought because the last ones for the same pods took none of them."""
        pools = {pool.key: pool for pool in snapshot.pools}
        controllers = {workload_of(pod): _controller(pod) for pod in snapshot.pods}
        for hold in list(holds)[:MOST_POD_EVENTS]:
            pool = pools.get(hold.pool_key)
            if pool is None:
                continue
            text = (
                f"{hold.attempts} time(s) in a row new nodes took no pod of "
                f"{controllers.get(hold.workload, hold.workload)}; the next one waits. See what keeps pods off: "
                f"kubectl describe nodes -l {pool.label_key}={pool.name}, Taints and Events"
            )
            log.warning("launch held back", pool=pool.name, why=text, seconds=round(hold.seconds))
            await self.recorder.publish(to_pool(pool), "Warning", "LaunchHeldBack", text)

    async def _nominated(self, pods: list[Pod], target: str) -> None:
        for pod in pods[:MOST_POD_EVENTS]:
            if is_provisionable(pod):
                await self.recorder.publish(
                    to_pod(pod), "Normal", "Nominated", f"Pod should schedule on: {target}"
                )

    async def _failed(self, plan: Plan, pods: dict[str, Pod]) -> None:
        faulty = {
            pod.uid: "; ".join(pod.faults)
            for pod in pods.values()
            if pod.faults and is_provisionable(pod)
        }
        reasons = {**plan.unschedulable, **faulty}
        self.last_reasons = {pods[uid].key: text for uid, text in reasons.items() if uid in pods}
        for uid, reason in list(reasons.items())[:MOST_POD_EVENTS]:
            if uid not in pods:
                continue
            log.error("could not schedule pod", pod=pods[uid].key, reason=reason)
            await self.recorder.publish(
                to_pod(pods[uid]),
                "Warning",
                "FailedScheduling",
                f"Failed to schedule pod, {reason}",
                dedupe_seconds=FAILED_SCHEDULING_SECONDS,
            )


def _controller(pod: Pod) -> str:
    """Who made it, for people."""
    owner = pod.owner
    return f"{owner.kind} {pod.namespace}/{owner.name}" if owner else f"pod {pod.key}"
