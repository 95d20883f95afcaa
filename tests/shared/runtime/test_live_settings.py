"""The ConfigMap is heeded while a service runs, and never stops it (OPS-04), on a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from shared.api.v1alpha5.global_settings import NAME
from shared.concurrency.clock import SystemClock
from shared.errors import ConfigurationError, Unavailable
from shared.kube.recorder import Recorder
from shared.kube.resources import CONFIG_MAPS, EVENTS
from shared.runtime.live_settings import LiveSettings
from shared.settings import SchedulerSettings
from tests.support.cluster.fixture import Cluster, cluster, connect, write_kubeconfig
from tests.support.cluster.scripted_api import ScriptedApi, answer, refusal, scripted_api

__all__ = ["cluster"]
Live = LiveSettings[SchedulerSettings]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Only what the test sets."""
    for name in SchedulerSettings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("CLUSTER_NAME", "test")
    return monkeypatch


@pytest.fixture
def recorder(cluster: Cluster) -> Recorder:
    return Recorder(cluster.kube, clock=SystemClock(), random=Random(1))


@pytest.fixture
def live(cluster: Cluster, recorder: Recorder) -> Live:
    return LiveSettings(SchedulerSettings, cluster.kube, recorder, namespace=cluster.namespace)


@pytest.fixture
async def api() -> AsyncIterator[ScriptedApi]:
    async with scripted_api() as server:
        yield server


@pytest.fixture
async def scripted(api: ScriptedApi, tmp_path: Path) -> AsyncIterator[Live]:
    """Settings from the server with a script."""
    kube = await connect(write_kubeconfig(tmp_path / "kubeconfig", api.url))
    recorder = Recorder(kube, clock=SystemClock(), random=Random(1))
    yield LiveSettings(SchedulerSettings, kube, recorder, namespace="karpenter")
    await kube.close()


async def events(cluster: Cluster, recorder: Recorder) -> list[tuple[str, str]]:
    """Object and message of every event in the namespace, written first."""
    stop = asyncio.Event()
    stop.set()
    await recorder.run(stop)
    listed = (await cluster.kube.list(EVENTS, cluster.namespace)).items
    return [(one["involvedObject"]["name"], one["message"]) for one in listed]


async def say(cluster: Cluster, **data: str) -> None:
    """Create the ConfigMap, or replace what it says; underscores stand for dots."""
    said: dict[str, Any] = {key.replace("_", "."): text for key, text in data.items()}
    found = (await cluster.kube.list(CONFIG_MAPS, cluster.namespace)).items
    for old in found:
        if old["metadata"]["name"] == NAME:
            await cluster.kube.replace(CONFIG_MAPS, old | {"data": said})
            return
    body = {"metadata": {"name": NAME, "namespace": cluster.namespace}, "data": said}
    await cluster.kube.create(CONFIG_MAPS, body)


async def test_without_a_configmap_the_defaults_count(live: Live) -> None:
    await live.start()
    assert live.settings.batch_max_duration == 10.0
    assert live.problem == ""


async def test_a_change_shows_in_the_settings_everybody_holds(cluster: Cluster, live: Live) -> None:
    await say(cluster, batchMaxDuration="20s")
    await live.start()
    held = live.settings
    assert held.batch_max_duration == 20.0
    await say(cluster, batchMaxDuration="30s", featureGates_driftEnabled="true")
    await live.refresh()
    assert live.settings is held
    assert held.batch_max_duration == 30.0
    assert held.feature_gates.drift


async def test_a_variable_outranks_the_configmap(
    cluster: Cluster, live: Live, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("BATCH_MAX_DURATION", "5s")
    await say(cluster, batchMaxDuration="20s", batchIdleDuration="2s")
    await live.start()
    assert live.settings.batch_max_duration == 5.0
    assert live.settings.batch_idle_duration == 2.0


async def test_without_the_configmap_the_defaults_come_back(cluster: Cluster, live: Live) -> None:
    await say(cluster, batchMaxDuration="20s")
    await live.start()
    await cluster.kube.delete(CONFIG_MAPS, NAME, cluster.namespace)
    await live.refresh()
    assert live.settings.batch_max_duration == 10.0


async def test_a_faulty_configmap_leaves_the_last_good_values(
    cluster: Cluster, live: Live, recorder: Recorder
) -> None:
    await say(cluster, batchMaxDuration="20s")
    await live.start()
    await say(cluster, batchMaxDuration="soon", batchIdleDuration="5s")
    await live.refresh()
    assert live.settings.batch_max_duration == 20.0
    assert live.settings.batch_idle_duration == 1.0
    assert "data.batchMaxDuration" in live.problem
    await live.refresh()
    ((name, message),) = await events(cluster, recorder)
    assert name == NAME
    assert "data.batchMaxDuration" in message
    await say(cluster, batchMaxDuration="40s")
    await live.refresh()
    assert (live.settings.batch_max_duration, live.problem) == (40.0, "")


async def test_a_faulty_configmap_at_the_start_leaves_the_defaults(
    cluster: Cluster, live: Live, recorder: Recorder
) -> None:
    await say(cluster, batchMaxDuration="soon", batchIdleDuration="5s")
    await live.start()
    assert live.settings.batch_idle_duration == 1.0
    assert await events(cluster, recorder)


async def test_a_key_that_means_nothing_is_no_fault(cluster: Cluster, live: Live) -> None:
    await say(cluster, batchMaxDuration="20s", aws_defaultInstanceType="m5.large")
    await live.start()
    assert (live.settings.batch_max_duration, live.problem) == (20.0, "")


async def test_the_configmap_may_name_the_cluster(
    cluster: Cluster, live: Live, environment: pytest.MonkeyPatch
) -> None:
    environment.delenv("CLUSTER_NAME")
    await say(cluster, aws_clusterName="prod")
    await live.start()
    assert live.settings.cluster_name == "prod"


async def test_another_name_of_the_cluster_waits_for_the_next_start(
    cluster: Cluster, live: Live, environment: pytest.MonkeyPatch
) -> None:
    """Streams, tags and leases carry it."""
    environment.delenv("CLUSTER_NAME")
    await say(cluster, aws_clusterName="prod")
    await live.start()
    await say(cluster, aws_clusterName="other", batchMaxDuration="20s")
    await live.refresh()
    assert live.settings.cluster_name == "prod"
    assert live.settings.batch_max_duration == 20.0
    await cluster.kube.delete(CONFIG_MAPS, NAME, cluster.namespace)
    await live.refresh()
    assert live.settings.cluster_name == "prod"


@pytest.mark.parametrize("data", [{}, {"aws_clusterName": ""}, {"aws_clusterName": "x" * 101}])
async def test_a_cluster_without_any_name_is_refused_with_both_places_to_name_it(
    cluster: Cluster, live: Live, environment: pytest.MonkeyPatch, data: dict[str, str]
) -> None:
    environment.delenv("CLUSTER_NAME")
    await say(cluster, **data)
    with pytest.raises(ConfigurationError) as missing:
        await live.start()
    assert "CLUSTER_NAME" in missing.value.message
    assert f"aws.clusterName in ConfigMap {cluster.namespace}/{NAME}" in missing.value.message
    assert ("more than 100" in missing.value.message) == bool(data.get("aws_clusterName"))


def config_maps(version: str, **data: str) -> dict[str, Any]:
    """A list of the one."""
    return {"items": [{"metadata": {"name": NAME, "resourceVersion": version}, "data": data}]}


async def test_an_absent_configmap_is_listed_not_missed(api: ScriptedApi, scripted: Live) -> None:
    """A get would be answered with 404, every 15 seconds and by every service."""
    api.lists = [answer({"items": []})]
    await scripted.start()
    assert scripted.problem == ""


async def test_a_service_that_may_not_read_the_configmap_works_with_what_it_has(
    api: ScriptedApi, scripted: Live
) -> None:
    good = answer(config_maps("1", batchMaxDuration="20s"))
    api.lists = [good, refusal(403, "Forbidden"), good]
    await scripted.start()
    await scripted.refresh()
    assert 'verb "list" on resource "configmaps"' in scripted.problem
    assert scripted.settings.batch_max_duration == 20.0
    await scripted.refresh()
    assert scripted.problem == ""


@pytest.mark.slow
async def test_a_server_that_is_away_changes_nothing(api: ScriptedApi, scripted: Live) -> None:
    api.lists = [
        answer(config_maps("1", batchMaxDuration="20s")),
        refusal(503, "ServiceUnavailable"),
    ]
    await scripted.start()
    with pytest.raises(Unavailable):
        await scripted.refresh()
    assert scripted.settings.batch_max_duration == 20.0
