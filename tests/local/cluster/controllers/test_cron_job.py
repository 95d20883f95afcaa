"""CronJobs: when they start Jobs, which they keep; and how long the pods of Jobs run."""

from __future__ import annotations

import random
from typing import Any

import pytest

from local.cluster.control_plane.informers import Informers, Key, KeyIndex, controller_uids
from local.cluster.control_plane.recorder import EventRecorder
from local.cluster.controllers.cron_job import CronJobController, schedule_times
from local.cluster.kubelet.run_times import run_seconds
from local.cluster.storage.store import Store
from shared.concurrency.clock import parse_rfc3339
from tests.support.clock.fake import FakeClock
from tests.support.cluster.local_cluster import condition, control_plane, pod_template
from tests.support.waiting import wait_until

NOON = parse_rfc3339("2026-03-02T12:00:00Z")


@pytest.mark.parametrize(
    ("spec", "since", "now", "due", "upcoming"),
    [
        ({"schedule": "*/5 * * * *"}, 0, 299, None, 300),
        ({"schedule": "*/5 * * * *"}, 0, 300, 300, 600),
        ({"schedule": "*/5 * * * *"}, 0, 1000, 900, 1200),
        ({"schedule": "@hourly"}, 0, 10, None, 3600),
        ({"schedule": "0 13 * * *", "timeZone": "Europe/Berlin"}, -60, 0, 0, 86_400),
    ],
)
def test_the_newest_time_that_has_come_counts(
    spec: dict[str, str], since: int, now: int, due: int | None, upcoming: int
) -> None:
    """Seconds after noon UTC."""
    found = schedule_times(spec, NOON + since, NOON + now)
    assert found == (None if due is None else NOON + due, NOON + upcoming)


@pytest.mark.parametrize(
    "spec", [{}, {"schedule": "often"}, {"schedule": "@hourly", "timeZone": "Mars/Olympus"}]
)
def test_what_is_no_schedule_is_a_value_error(spec: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"unparseable schedule|unknown time zone"):
        schedule_times(spec, NOON, NOON)


class Crons:
    """One CronJob, ``web``, and its controller, called directly."""

    def __init__(self, **spec: Any) -> None:
        self.clock = FakeClock(wall=NOON)
        self.store = Store(self.clock, random.Random(7))
        informers, recorder = Informers(self.store), EventRecorder(self.store, self.clock)
        self._index = KeyIndex(self.store, informers, "jobs", controller_uids, group="batch")
        self.controller = CronJobController(self.store, self._index, recorder, self.clock)
        template = {"spec": {"template": pod_template({}, "1", {"restartPolicy": "Never"})}}
        whole = {"schedule": "*/5 * * * *", "jobTemplate": template, **spec}
        body = {"metadata": {"name": "web"}, "spec": whole}
        self.store.create("cronjobs", body, group="batch", namespace="default")

    async def after(self, seconds: float) -> float | None:
        self.clock.advance(seconds)
        return await self.controller.reconcile(Key("default", "web"))

    def jobs(self) -> list[str]:
        found = self.store.list("jobs", group="batch", namespace="default")
        return [job["metadata"]["name"] for job in found]

    def end(self, name: str) -> None:
        status = {
            "conditions": [{"type": "Complete", "status": "True"}],
            "completionTime": "2026-03-02T12:30:00Z",
        }
        body = {"status": status}
        done = self.store.patch(
            "jobs", name, body, group="batch", namespace="default", subresource="status"
        )
        self._index.add(done)

    @property
    def status(self) -> dict[str, Any]:
        found = self.store.get("cronjobs", "web", group="batch", namespace="default")
        return found.get("status") or {}


async def test_a_job_is_started_once_at_its_time() -> None:
    crons = Crons()
    assert await crons.after(0) == 300
    assert crons.jobs() == []
    assert await crons.after(301) == 299
    assert await crons.after(1) == 298
    (name,) = crons.jobs()
    assert name == f"web-{int(NOON + 300) // 60}"
    assert crons.status["lastScheduleTime"] == "2026-03-02T12:05:00Z"
    assert [one["name"] for one in crons.status["active"]] == [name]
    crons.end(name)
    await crons.after(1)
    assert crons.status["active"] == []
    assert crons.status["lastSuccessfulTime"] == "2026-03-02T12:30:00Z"


@pytest.mark.parametrize(
    ("policy", "left"),
    [("Allow", ["first", "second"]), ("Forbid", ["first"]), ("Replace", ["second"])],
)
async def test_a_job_that_still_runs_is_treated_by_the_policy(policy: str, left: list[str]) -> None:
    crons = Crons(concurrencyPolicy=policy)
    names = {"first": f"web-{int(NOON + 300) // 60}", "second": f"web-{int(NOON + 600) // 60}"}
    await crons.after(300)
    await crons.after(300)
    assert crons.jobs() == [names[one] for one in left]


async def test_suspended_late_and_unreadable_ones_start_nothing() -> None:
    for spec in ({"suspend": True}, {"startingDeadlineSeconds": 10}, {"schedule": "often"}):
        crons = Crons(**spec)
        await crons.after(320)
        assert crons.jobs() == []


async def test_of_the_jobs_that_ended_a_few_are_kept() -> None:
    crons = Crons(successfulJobsHistoryLimit=1)
    for _ in range(3):
        await crons.after(300)
        crons.end(crons.jobs()[-1])
    await crons.after(1)
    assert crons.jobs() == [f"web-{int(NOON + 900) // 60}"]


def pod_running(*words: str, policy: str = "Never", more: tuple[str, ...] = ()) -> dict[str, Any]:
    containers = [{"name": "a", "command": list(words)}]
    containers += [{"name": "b", "args": list(more)}] if more else []
    return {"metadata": {}, "spec": {"containers": containers, "restartPolicy": policy}}


@pytest.mark.parametrize(
    ("pod", "seconds"),
    [
        (pod_running("sleep", "120"), 120),
        (pod_running("/bin/sleep", "2m"), 120),
        (pod_running("sh", "-c", "echo hi; sleep 1.5 && sleep 1m 3s"), 64.5),
        (pod_running("sleep", "5", more=("sh", "-c", "sleep 7")), 7),
        (pod_running("sleep", "infinity"), None),
        (pod_running("date"), 1),
        (pod_running("./nosleep 5"), 1),
        (pod_running("sleep $((RANDOM % 60))"), 1),
        (pod_running(), None),
        (pod_running("sleep", "5", policy="Always"), None),
    ],
)
def test_a_pod_runs_as_long_as_its_commands_sleep(
    pod: dict[str, Any], seconds: float | None
) -> None:
    assert run_seconds(pod) == seconds
    pod["metadata"]["annotations"] = {"local.dovetail.sh/run-seconds": "3"}
    assert run_seconds(pod) == 3


async def test_a_job_that_sleeps_completes_with_a_condition() -> None:
    template = pod_template({"app": "job"}, "100m", {"restartPolicy": "Never"})
    template["spec"]["containers"][0]["command"] = ["sleep", "0.1"]
    async with control_plane() as cluster:
        cluster.node("n1")
        body = {"metadata": {"name": "batch"}, "spec": {"template": template}}
        cluster.store.create("jobs", body, group="batch", namespace="default")
        await wait_until(
            lambda: (
                condition(
                    cluster.store.get("jobs", "batch", group="batch", namespace="default"),
                    "Complete",
                ).get("status")
                == "True"
            ),
            "it completes",
        )
        (pod,) = cluster.pods()

        def shown() -> set[tuple[str, str]]:
            events = cluster.store.list("events", namespace="default")
            return {
                (e["reason"], e["message"]) for e in events if e["involvedObject"]["kind"] == "Job"
            }

        created = ("SuccessfulCreate", f"Created pod: {pod['metadata']['name']}")
        await wait_until(
            lambda: shown() == {created, ("Completed", "Job completed")}, "both are recorded"
        )
