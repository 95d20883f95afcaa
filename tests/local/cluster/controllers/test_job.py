"""Jobs and pods that end by themselves."""

from __future__ import annotations

from typing import Any

from tests.support.cluster.local_cluster import condition, control_plane, pod_template
from tests.support.waiting import wait_until


async def test_a_job_runs_until_all_completions_are_reached() -> None:
    template = pod_template({"app": "job"}, "100m", {"restartPolicy": "Never"})
    template["metadata"]["annotations"] = {"local.dovetail.sh/run-seconds": "0.02"}
    spec = {"completions": 5, "parallelism": 2, "template": template}
    async with control_plane() as cluster:
        cluster.node("n1")
        body = {"metadata": {"name": "batch"}, "spec": spec}
        cluster.store.create("jobs", body, group="batch", namespace="default")

        def job() -> dict[str, Any]:
            return cluster.store.get("jobs", "batch", group="batch", namespace="default")

        await wait_until(
            lambda: condition(job(), "Complete").get("status") == "True",
            "it completes",
            show=lambda: job().get("status"),
        )
        assert job()["status"]["succeeded"] == 5
        assert len(cluster.pods(phase="Succeeded")) == 5


async def test_a_finished_pod_frees_its_node() -> None:
    async with control_plane() as cluster:
        cluster.node("n1", cpu="1")
        cluster.pod("short", cpu="1", annotations={"local.dovetail.sh/run-seconds": "0.05"})
        await cluster.bound("short")
        cluster.pod("next", cpu="1")
        assert await cluster.bound("next") == "n1"
        assert cluster.find_pod("short")["status"]["phase"] == "Succeeded"


async def test_a_finished_job_goes_when_its_time_to_live_is_over() -> None:
    template = pod_template({"app": "job"}, "100m", {"restartPolicy": "Never"})
    template["metadata"]["annotations"] = {"local.dovetail.sh/run-seconds": "0.02"}
    body = {
        "metadata": {"name": "once"},
        "spec": {"ttlSecondsAfterFinished": 1, "template": template},
    }
    async with control_plane() as cluster:
        cluster.node("n1")
        cluster.store.create("jobs", body, group="batch", namespace="default")
        await wait_until(lambda: cluster.pods(phase="Succeeded"), "its pod succeeds")
        gone = lambda: not cluster.store.list("jobs", group="batch") and not cluster.pods()  # noqa: E731
        await wait_until(gone, "the job and its pod are gone")
