"""Jobs run pods until enough of them have succeeded.

``kubelet/run_times.py`` determines when their pods end. Parallelism, completions, backoffLimit and
ttlSecondsAfterFinished work as in batch/v1; indexed completion, suspension and failure policies are not modelled.
"""

from __future__ import annotations

from typing import Any

from local.cluster.control_plane.conditions import is_true, with_conditions
from local.cluster.control_plane.informers import Key, Obj
from local.cluster.control_plane.supervision import TimeSlice
from local.cluster.controllers.pod_templates import (
    is_active,
    is_ready,
    phase,
    pod_from_template,
    suffix,
)
from local.cluster.controllers.workqueue import WorkloadController
from shared.concurrency.clock import parse_rfc3339, rfc3339


class JobController(WorkloadController):
    """Creates pods for Jobs."""

    name, plural, group = "job", "jobs", "batch"
    kind, component = "Job", "job-controller"

    async def reconcile(self, key: Key) -> float | None:
        """Start missing pods, write the status, and delete the job when its TTL expires."""
        job = self.find(key)
        if job is None or job["metadata"].get("deletionTimestamp"):
            return None
        if is_true(job, "Complete") or is_true(job, "Failed"):
            return self._expire(job)
        pods = self._pods.members(job["metadata"]["uid"])
        active = [pod for pod in pods if is_active(pod)]
        succeeded = sum(phase(pod) == "Succeeded" for pod in pods)
        failed = sum(phase(pod) == "Failed" for pod in pods)
        parallelism = job["spec"].get("parallelism", 1)
        completions = job["spec"].get("completions") or parallelism
        gave_up = failed > job["spec"].get("backoffLimit", 6)
        desired = 0 if gave_up else min(parallelism, completions - succeeded)
        await self._resize(job, active, desired)
        self._write_status(key, succeeded, failed, completions, gave_up)
        return None

    async def _resize(self, job: Obj, active: list[Obj], desired: int) -> None:
        turn, namespace = TimeSlice(), job["metadata"]["namespace"]
        for pod in active[max(desired, 0) :]:
            self.delete("pods", pod)
            await turn.share()
        for _ in range(desired - len(active)):
            name = f"{job['metadata']['name']}-{suffix(self._rng)}"
            pod = pod_from_template(job, name)
            pod["metadata"]["labels"] |= {
                "batch.kubernetes.io/job-name": job["metadata"]["name"],
                "job-name": job["metadata"]["name"],
            }
            self._pods.add(self._store.create("pods", pod, namespace=namespace))
            self._record(job, "SuccessfulCreate", f"Created pod: {name}")
            await turn.share()

    def _write_status(
        self, key: Key, succeeded: int, failed: int, completions: int, gave_up: bool
    ) -> None:
        job = self.find(key)
        if job is None:
            return
        before, now = job.get("status") or {}, rfc3339(self._clock.now())
        active = [p for p in self._pods.members(job["metadata"]["uid"]) if is_active(p)]
        status: dict[str, Any] = {
            **before,
            "startTime": before.get("startTime", now),
            "active": len(active),
            "ready": sum(is_ready(pod) for pod in active),
            "succeeded": succeeded,
            "failed": failed,
        }
        if succeeded >= completions or gave_up:
            condition = {"type": "Failed" if gave_up else "Complete", "status": "True"}
            if gave_up:
                reason, text = "BackoffLimitExceeded", "too many pods failed"
                condition |= {"reason": reason, "message": text}
                self._record(job, reason, text, event_type="Warning")
            else:
                status["completionTime"] = now
                self._record(job, "Completed", "Job completed")
            status["conditions"] = with_conditions(before.get("conditions"), [condition], now)
        self.set_status(job, status)

    def _expire(self, job: Obj) -> float | None:
        seconds = job["spec"].get("ttlSecondsAfterFinished")
        if seconds is None:
            return None
        ended = max(parse_rfc3339(c["lastTransitionTime"]) for c in job["status"]["conditions"])
        left = float(ended + seconds - self._clock.now())
        if left > 0:
            return left
        self.delete(self.plural, job, group=self.group, propagation="Background")
        return None
