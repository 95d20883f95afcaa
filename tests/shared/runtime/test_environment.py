"""How a service starts: what it needs from the API server, and in which order it reads its settings."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from shared.api.v1alpha5.global_settings import NAME
from shared.errors import ConfigurationError, Unavailable
from shared.kube.resources import CONFIG_MAPS, Resource
from shared.redis.bus import Envelope, shown
from shared.runtime.environment import Environment, check_kinds, open_environment
from shared.settings import SchedulerSettings
from tests.support.cluster.fixture import Cluster, cluster
from tests.support.metrics.pages import Scraped
from tests.support.redis.fixture import redis_server, redis_url
from tests.support.texts.documents import documents
from tests.support.waiting import wait_until

__all__ = ["cluster", "redis_server", "redis_url"]
CRDS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)
ALL_MISSING = (
    "it does not know Machines, NodeClaims, NodePools, EC2NodeClasses, Provisioners, "
    "AWSNodeTemplates, LaunchRecords: kubectl apply -f deploy/crds"
)
CRD_FILES = sorted((Path(__file__).parents[3] / "deploy" / "crds").glob("*.yaml"))


@pytest.fixture(autouse=True)
def variables(
    cluster: Cluster, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> pytest.MonkeyPatch:
    """Everything but the name of the cluster."""
    for name in SchedulerSettings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    monkeypatch.setenv("REDIS_URL", redis_url)
    monkeypatch.setenv("SYSTEM_NAMESPACE", cluster.namespace)
    monkeypatch.setenv("CONNECT_TIMEOUT", "0.2s")
    return monkeypatch


async def install(cluster: Cluster, *, without: str = "") -> None:
    """Apply deploy/crds, but for one kind."""
    for file in CRD_FILES:
        (document,) = documents(file)
        if document["spec"]["names"]["kind"] != without:
            await cluster.kube.create(CRDS, document)


@contextlib.asynccontextmanager
async def started() -> AsyncIterator[Environment[SchedulerSettings]]:
    async with contextlib.AsyncExitStack() as stack:
        yield await open_environment("scheduler", SchedulerSettings, stack)


async def test_a_server_with_all_kinds_is_enough(cluster: Cluster) -> None:
    """OPS-10: status endpoints."""
    await install(cluster)
    await check_kinds(cluster.kube)


async def test_a_kind_that_is_missing_is_named(cluster: Cluster) -> None:
    await install(cluster, without="EC2NodeClass")
    with pytest.raises(Unavailable) as missing:
        await check_kinds(cluster.kube)
    assert missing.value.message == (
        "it does not know EC2NodeClasses: kubectl apply -f deploy/crds"
    )


async def test_without_any_kind_all_are_named_at_once(
    variables: pytest.MonkeyPatch, cluster: Cluster
) -> None:
    variables.setenv("CLUSTER_NAME", "test")
    with pytest.raises(ConfigurationError, match=ALL_MISSING):
        async with started():
            pass


async def test_the_configmap_names_the_cluster_before_the_bus_opens(cluster: Cluster) -> None:
    """OPS-04: the settings ConfigMap of v1alpha5."""
    await install(cluster)
    name = f"test-{Random().getrandbits(32):08x}"
    await cluster.kube.create(
        CONFIG_MAPS,
        {
            "metadata": {"name": NAME, "namespace": cluster.namespace},
            "data": {"aws.clusterName": name, "batchMaxDuration": "20s"},
        },
    )
    async with started() as env:
        assert env.settings.cluster_name == name
        assert env.settings.batch_max_duration == 20.0
        assert name in env.bus.prefix
        assert env.settings is env.live.settings


async def test_without_a_name_of_the_cluster_both_places_are_named(cluster: Cluster) -> None:
    await install(cluster)
    with pytest.raises(ConfigurationError, match=r"CLUSTER_NAME, or aws\.clusterName in ConfigMap"):
        async with started():
            pass


async def test_every_service_writes_events_and_looks_at_the_configmap(
    variables: pytest.MonkeyPatch, cluster: Cluster
) -> None:
    variables.setenv("CLUSTER_NAME", "test")
    await install(cluster)
    async with started() as env:
        assert [loop.name for loop in env.own_loops()] == ["events", "settings", "queues"]


async def test_a_wrong_variable_is_refused_without_asking_anybody(
    variables: pytest.MonkeyPatch,
) -> None:
    variables.setenv("CLUSTER_NAME", "test")
    variables.setenv("KUBECONFIG", "/nowhere")
    variables.setenv("BATCH_MAX_DURATION", "soon")
    with pytest.raises(ConfigurationError, match="BATCH_MAX_DURATION"):
        async with started():
            pass


async def test_a_password_that_redis_refuses_is_named_by_its_variable_and_never_shown(
    variables: pytest.MonkeyPatch, cluster: Cluster, redis_url: str
) -> None:
    await install(cluster)
    variables.setenv("CLUSTER_NAME", "test")
    variables.setenv("REDIS_URL", redis_url.replace("://", "://scheduler:sesame@"))
    with pytest.raises(ConfigurationError) as refused:
        async with started():
            pass
    assert "Check REDIS_URL" in refused.value.message
    assert "://scheduler@127.0.0.1" in refused.value.message
    assert "sesame" not in refused.value.message


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0"),
        ("redis://:sesame@redis:6379/0", "redis://redis:6379/0"),
        ("rediss://a:se:s@me@redis:1/2?ssl_ca_certs=/x&password=sesame", "rediss://a@redis:1/2"),
        ("unix://a:sesame@/run/redis.sock?db=1", "unix://a@/run/redis.sock"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, said: str) -> None:
    assert shown(url) == said


@pytest.mark.slow
async def test_a_standby_that_led_once_is_not_late_because_its_consumer_ended(
    cluster: Cluster, variables: pytest.MonkeyPatch
) -> None:
    """F14, R8: a lost Lease ends the consumer; the standby that remains makes progress by waiting."""
    await install(cluster)
    variables.setenv("CLUSTER_NAME", "standby")
    async with started() as env:
        loop = env.consumer_loop("pods", "scheduler", ignore)
        leadership = env.leadership("scheduler")
        leadership.led(loop)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(leadership.lease.run(lost := asyncio.Event()))  # type: ignore[union-attr]
            group.create_task(loop.run(stop))
            await wait_until(lambda: env.consuming, "the leader consumes")
            lost.set()
            await wait_until(lambda: not leadership.held, "the Lease is given back")
            before = loop.beat
            leadership._lost.set()  # what the loop "lead" does, which this test does not run
            await wait_until(lambda: not env.consuming, "the consumer ended")
            await wait_until(lambda: loop.beat > before, "the standby waits")
            assert loop.latest() >= loop.beat
            stop.set()


async def test_dead_letters_of_the_streams_that_it_consumes_are_counted(
    cluster: Cluster, variables: pytest.MonkeyPatch
) -> None:
    await install(cluster)
    variables.setenv("CLUSTER_NAME", "letters")
    async with started() as env:
        queues = next(loop for loop in env.own_loops() if loop.name == "queues")
        consumer, stop = env.consumer_loop("pods", "scheduler", ignore), asyncio.Event()
        letters = env.bus.dead_letters("pods")
        await letters.add(source="1-1", group="g", fields={}, deliveries=1, error=ValueError("no"))

        def counted() -> bool:
            return Scraped(env.metrics.text()).value("dovetail_dead_letters", stream="pods") == 1

        async with asyncio.TaskGroup() as group:
            group.create_task(consumer.run(stop))
            await wait_until(lambda: env.consuming, "the stream is consumed")
            group.create_task(queues.run(stop))
            await wait_until(counted, "the dead letter is counted")
            stop.set()


async def ignore(envelope: Envelope) -> None:
    """A handler without effect."""
    del envelope
