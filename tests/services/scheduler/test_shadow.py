"""A shadow scheduler beside the real one: it sees the same, decides, records, and may write nothing."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import yaml

from local.cluster.cluster import running_cluster
from local.cluster.settings import ClusterSettings
from services.scheduler.service import build
from shared.concurrency.clock import SystemClock
from shared.domain.instance_types.types import encode_catalogue
from shared.domain.pools.nodepools import NodePool
from shared.errors import ConfigurationError, Unauthorized
from shared.kube.client import Kube
from shared.kube.recorder import Recorder
from shared.kube.resources import EVENTS, LEASES, MACHINES, NODES
from shared.metrics import Metrics
from shared.redis import streams
from shared.redis.bus import Bus
from shared.redis.bus.connection import call
from shared.redis.messages import PodUnschedulable, send
from shared.redis.mirror import Change, MirrorWriter
from shared.redis.mirror.catalogue.offerings import CatalogueStore
from shared.runtime.archive.reading import Archive
from shared.runtime.archive.store import DirectoryStore
from shared.runtime.environment import Environment
from shared.runtime.live_settings import LiveSettings
from shared.runtime.services import Service
from shared.settings import SchedulerSettings, read
from shared.simulation.decisions.records import DecisionRecord
from tests.services.conftest import CLUSTER
from tests.services.scheduler.conftest import SETTINGS, SOUND
from tests.support.cluster.fixture import connect
from tests.support.planning.builders import make_catalogue, make_node_class, make_pods, make_pool
from tests.support.waiting import wait_until

DEPLOY = Path(__file__).parents[3] / "deploy"
WRITES = {"create", "update", "patch", "delete", "deletecollection"}


@pytest.fixture
async def account(tmp_path: Path) -> AsyncIterator[Kube]:
    """A client with the rights that deploy/shadow gives, on an API server that enforces them."""
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    shutil.copy(DEPLOY / "kubernetes" / "00-namespace.yaml", manifests)
    shutil.copy(DEPLOY / "shadow" / "shadow.yaml", manifests)
    accounts = tmp_path / "accounts"
    settings = ClusterSettings(
        accounts_directory=manifests, account_kubeconfigs=accounts, crd_directory=DEPLOY / "crds"
    )
    async with running_cluster(settings):
        kube = await connect(accounts / "dovetail" / "dovetail-shadow")
        yield kube
        await kube.close()


@pytest.fixture
async def mirror(bus: Bus) -> MirrorWriter:
    """With a catalogue, one pool, and three pods that wait."""
    catalogue = make_catalogue()
    await CatalogueStore(bus.redis, bus.prefix).put(
        encode_catalogue(catalogue), catalogue.generation
    )
    writer = MirrorWriter(bus.redis, bus.prefix, epoch="epoch-a")
    pool = make_pool()
    classes = {"AWSNodeTemplate/default": msgspec.json.encode(make_node_class())}
    await writer.begin({"nodeclasses": classes, "nodepools": _encoded(pool)})
    await writer.apply(
        [Change("pods", pod.key, msgspec.json.encode(pod)) for pod in make_pods(3, cpu="3")]
    )
    await writer.heartbeat(SOUND)
    return writer


def _encoded(pool: NodePool) -> dict[str, bytes]:
    return {pool.key: msgspec.json.encode(pool)}


async def shadow_of(kube: Kube, bus: Bus, redis_url: str, **more: Any) -> Service:
    """The service as ``SHADOW=true`` builds it."""
    clock, chance = SystemClock(), random.Random(1)
    recorder = Recorder(kube, clock, chance)
    changed = {**SETTINGS, "redis_url": redis_url, "shadow": True, **more}
    settings = read(SchedulerSettings, **changed)
    live = LiveSettings(SchedulerSettings, kube, recorder, namespace="karpenter")
    metrics = Metrics("scheduler")
    env = Environment(
        settings, live, clock, chance, metrics, kube, bus, recorder, "shadow", AsyncExitStack()
    )
    return await build(env)


async def records_of(folder: Path) -> list[DecisionRecord]:
    archive = Archive(DirectoryStore(folder), CLUSTER, "shadow")
    return [record async for record in archive.records()]


async def keys_of(bus: Bus) -> set[bytes]:
    """Of this cluster: the server has keys of other tests, which expire."""
    return {*await call(bus.redis, "list keys", "KEYS", f"{bus.prefix}*")}


async def test_it_follows_decides_and_records_and_changes_nothing(
    account: Kube, bus: Bus, redis_url: str, mirror: MirrorWriter, tmp_path: Path
) -> None:
    folder = tmp_path / "records"
    service = await shadow_of(account, bus, redis_url, record_store=str(folder))
    before = await keys_of(bus)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for loop in service.loops:
            group.create_task(loop.run(stop))
        await wait_until(lambda: cast(int, service.status()["generation"]) > 1, "the mirror")
        await mirror.heartbeat(SOUND)
        await wait_until(lambda: service.status()["rounds"], "a round of the shadow")
        stop.set()
    assert service.close is not None
    await service.close()
    bought = [
        one for one in await records_of(folder) if one.cost is not None and one.kind == "plan"
    ]
    assert bought[0].shadow
    assert bought[0].created == ()
    assert bought[0].text.endswith("for 3 pods"), "as the record of the real scheduler would tell"
    assert bought[0].cost
    assert bought[0].pods == 3
    assert bought[0].bound is not None
    assert not any("not created" in why for _, why in bought[0].rejected)
    assert (await account.list(MACHINES)).items == []
    assert await keys_of(bus) == before, "no stream, no group, no key"


async def test_a_message_is_seen_and_taken_from_nobody(
    account: Kube, bus: Bus, redis_url: str, mirror: MirrorWriter, tmp_path: Path
) -> None:
    service = await shadow_of(account, bus, redis_url, record_store=str(tmp_path / "records"))
    (follow,) = (loop for loop in service.loops if loop.name == "streams")
    stop = asyncio.Event()
    started = follow.latest()
    async with asyncio.TaskGroup() as group:
        group.create_task(follow.run(stop))
        await wait_until(lambda: follow.latest() > started, "the first read")
        message = PodUnschedulable(uid="uid-pod-00000", pod="default/pod-00000", generation=1)
        await send(bus, streams.PODS, message, cause="test", clock=SystemClock())
        stop.set()
    key = f"{bus.prefix}{streams.PODS}"
    assert await call(bus.redis, "groups", "XINFO", "GROUPS", key) == []
    assert await call(bus.redis, "length", "XLEN", key) == 1


async def test_its_account_may_not_write(account: Kube) -> None:
    body = {"apiVersion": "karpenter.sh/v1alpha5", "kind": "Machine", "metadata": {"name": "m"}}
    with pytest.raises(Unauthorized):
        await account.create(MACHINES, body)
    with pytest.raises(Unauthorized):
        await account.patch(NODES, "n1", {"spec": {"unschedulable": True}})
    for resource in (EVENTS, LEASES):
        named = {"metadata": {"name": "x", "namespace": "dovetail"}}
        with pytest.raises(Unauthorized):
            await account.create(resource, named, "dovetail")


def test_its_role_has_no_verb_that_writes() -> None:
    documents = list(yaml.safe_load_all((DEPLOY / "shadow" / "shadow.yaml").read_text()))
    rules = [rule for one in documents if one["kind"] == "ClusterRole" for rule in one["rules"]]
    assert rules
    assert not WRITES & {verb for rule in rules for verb in rule["verbs"]}


async def test_without_an_archive_it_does_not_start(kube: Kube, bus: Bus, redis_url: str) -> None:
    with pytest.raises(ConfigurationError, match="SHADOW needs RECORD_STORE"):
        await shadow_of(kube, bus, redis_url)
