"""CronJobs create Jobs by their schedule and keep a few finished ones.

schedule, timeZone, suspend, startingDeadlineSeconds, concurrencyPolicy and both history limits work as in batch/v1.
"""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime, tzinfo
from functools import partial
from itertools import islice, takewhile

from cronsim import CronSim, CronSimError

from local.cluster.api.errors import ApiError
from local.cluster.control_plane.conditions import is_true
from local.cluster.control_plane.informers import Informers, Key, KeyIndex, Obj
from local.cluster.control_plane.recorder import EventRecorder
from local.cluster.controllers.pod_templates import owner_reference
from local.cluster.controllers.workqueue import Controller
from local.cluster.storage.store import Store
from shared.concurrency.clock import Clock, parse_rfc3339, rfc3339

MISSED_LIMIT = 1_000
"""Most missed times that are examined; if more were missed, the first ones count."""
MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


def schedule_times(spec: Obj, since: float, now: float) -> tuple[float | None, float | None]:
    """(newest scheduled time after ``since`` and until ``now``, next time) in epoch seconds; None: there is none.

    Raises ValueError for an invalid schedule or time zone.
    """
    text = str(spec.get("schedule") or "")
    try:
        runs = CronSim(MACROS.get(text, text), datetime.fromtimestamp(since, _zone(spec)))
    except CronSimError as error:
        raise ValueError(f"unparseable schedule {text!r}: {error}") from error
    times = (run.timestamp() for run in runs)
    missed = list(takewhile(lambda time: time <= now, islice(times, MISSED_LIMIT)))
    after = CronSim(MACROS.get(text, text), datetime.fromtimestamp(now, _zone(spec)))
    upcoming = next(after, None)
    return (missed[-1] if missed else None), (upcoming.timestamp() if upcoming else None)


def _zone(spec: Obj) -> tzinfo:
    name = spec.get("timeZone")
    try:
        return zoneinfo.ZoneInfo(name) if name else UTC
    except (zoneinfo.ZoneInfoNotFoundError, ValueError) as error:
        raise ValueError(f"unknown time zone {name!r}") from error


def is_finished(job: Obj) -> bool:
    """Whether a Job is finished, successfully or not."""
    return is_true(job, "Complete") or is_true(job, "Failed")


class CronJobController(Controller):
    """Creates Jobs for CronJobs."""

    name, plural, group = "cronjob", "cronjobs", "batch"

    def __init__(self, store: Store, jobs: KeyIndex, recorder: EventRecorder, clock: Clock) -> None:
        super().__init__(store)
        self._jobs, self._clock = jobs, clock
        self._record = partial(recorder.record, component="cronjob-controller")

    def register(self, informers: Informers) -> None:
        """Watch CronJobs and the Jobs they own."""
        informers.on(self.plural, self.on_own, group=self.group)
        informers.on("jobs", self.on_owned("CronJob"), group=self.group)

    async def reconcile(self, key: Key) -> float | None:
        """Start due Jobs, write the status, delete old Jobs. Returns the seconds until the next scheduled time."""
        cron_job = self.find(key)
        if cron_job is None or cron_job["metadata"].get("deletionTimestamp"):
            return None
        now, spec = self._clock.now(), cron_job["spec"]
        self._delete_old(cron_job)
        last = (cron_job.get("status") or {}).get("lastScheduleTime")
        since = parse_rfc3339(last or cron_job["metadata"]["creationTimestamp"])
        try:
            due, upcoming = schedule_times(spec, since, now)
        except ValueError as error:
            self._record(cron_job, "UnparseableSchedule", str(error), event_type="Warning")
            return None
        if due is not None and not spec.get("suspend") and not _too_late(spec, due, now):
            due = due if self._start(cron_job, due) else None
        else:
            due = None
        self._write_status(key, due)
        return None if upcoming is None else max(upcoming - now, 0.0)

    def _owned(self, cron_job: Obj) -> list[Obj]:
        return list(self._jobs.members(cron_job["metadata"]["uid"]))

    def _start(self, cron_job: Obj, due: float) -> bool:
        """Create the Job for ``due``; False when another one must finish first."""
        policy = cron_job["spec"].get("concurrencyPolicy", "Allow")
        active = [job for job in self._owned(cron_job) if not is_finished(job)]
        if active and policy == "Forbid":
            text = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self._record(cron_job, "JobAlreadyActive", text)
            return False
        for job in active if policy == "Replace" else ():
            self._delete(cron_job, job)
        self._create(cron_job, due)
        return True

    def _create(self, cron_job: Obj, due: float) -> None:
        metadata, template = cron_job["metadata"], cron_job["spec"]["jobTemplate"]
        template_metadata = template.get("metadata") or {}
        name = f"{metadata['name'][:52]}-{int(due // 60)}"
        job = {
            "metadata": {
                "name": name,
                "labels": template_metadata.get("labels") or {},
                "annotations": {
                    **(template_metadata.get("annotations") or {}),
                    "batch.kubernetes.io/cronjob-scheduled-timestamp": rfc3339(due),
                },
                "ownerReferences": [owner_reference(cron_job)],
            },
            "spec": template.get("spec") or {},
        }
        try:
            created = self._store.create(
                "jobs", job, group=self.group, namespace=metadata["namespace"]
            )
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            return  # created before a crash, after which the status was not written
        self._jobs.add(created)
        self._record(cron_job, "SuccessfulCreate", f"Created job {name}")

    def _write_status(self, key: Key, started: float | None) -> None:
        cron_job = self.find(key)
        if cron_job is None:
            return
        owned = self._owned(cron_job)
        status = {
            **(cron_job.get("status") or {}),
            "active": [_reference(one) for one in owned if not is_finished(one)],
        }
        ends = [one["status"]["completionTime"] for one in owned if is_true(one, "Complete")]
        if ends:
            status["lastSuccessfulTime"] = max(ends)
        if started is not None:
            status["lastScheduleTime"] = rfc3339(started)
        self.set_status(cron_job, status)

    def _delete_old(self, cron_job: Obj) -> None:
        spec, owned = cron_job["spec"], self._owned(cron_job)
        for condition, limit in (
            ("Complete", spec.get("successfulJobsHistoryLimit", 3)),
            ("Failed", spec.get("failedJobsHistoryLimit", 1)),
        ):
            ended = [job for job in owned if is_true(job, condition)]
            ended.sort(key=lambda job: job["metadata"]["creationTimestamp"])
            for job in ended[: max(len(ended) - limit, 0)]:
                self._delete(cron_job, job)

    def _delete(self, cron_job: Obj, job: Obj) -> None:
        if not job["metadata"].get("deletionTimestamp"):
            self.delete("jobs", job, group=self.group, propagation="Background")
            self._record(cron_job, "SuccessfulDelete", f"Deleted job {job['metadata']['name']}")


def _too_late(spec: Obj, due: float, now: float) -> bool:
    deadline = spec.get("startingDeadlineSeconds")
    return deadline is not None and now - due > float(deadline)


def _reference(job: Obj) -> dict[str, str]:
    metadata = job["metadata"]
    reference = {name: metadata[name] for name in ("name", "namespace", "uid", "resourceVersion")}
    return {"apiVersion": "batch/v1", "kind": "Job", **reference}
