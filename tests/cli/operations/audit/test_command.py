"""``dovetail audit`` on a running cluster: real API server, Redis and AWS emulator, and a mirror by a real watcher."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from cli.main import commands
from cli.operations.audit.finding import Graces
from cli.operations.audit.reading.read import read
from cli.operations.audit.reading.redis import queues_in, read_queues
from cli.operations.audit.rounds import watched
from cli.operations.doctor.finding import Installation
from local.cluster.storage.store import Store
from services.console.reports.queues import queues
from shared.concurrency.clock import SystemClock
from shared.kube.resources import PODS, SERVICE_ACCOUNTS
from shared.redis.bus import Bus
from shared.redis.bus.connection import call
from tests.services.conftest import CLUSTER, Control, store_with_our_kinds
from tests.support.aws.emulator import pooled_instance, whole_ec2
from tests.support.cluster.fixture import connect, embedded_api_server, write_kubeconfig
from tests.support.redis.server import RedisServer
from tests.support.texts.citations import PROJECT
from tests.support.waiting import wait_until
from tests.support.watcher_world import KINDS, watching

PAGE = PROJECT / "docs" / "operating" / "audit.md"
ROLE = re.compile(r"```yaml\n(apiVersion: rbac.*?)```", re.S)
AT_ONCE = Graces().at_most(0.0)


@dataclass
class World:
    """A cluster whose mirror was written a moment ago, and the variables that name it."""

    store: Store
    control: Control
    variables: dict[str, str]
    bus: Bus
    url: str

    async def audit(self, *words: str) -> tuple[int, Any]:
        """(exit code, what was printed as JSON)."""
        given = ["audit", "--grace", "0s", "-o", "json", *words]
        done = await asyncio.to_thread(
            CliRunner().invoke, commands, given, env=self.variables, catch_exceptions=False
        )
        # The API server of this process logs to the same output.
        return done.exit_code, json.loads(done.stdout[done.stdout.index("{\n") :])

    async def findings(self, *words: str) -> tuple[int, set[tuple[str, str]]]:
        """(exit code, promise and object of all that is broken)."""
        code, found = await self.audit(*words)
        return code, {
            (one["promise"], finding["object"])
            for one in found["promises"]
            for finding in one["findings"]
            if finding["counts"]
        }

    async def stray_instance(self) -> str:
        """Id of an instance that somebody started with the cluster's tags, when it is old enough to be judged."""
        async with whole_ec2(self.variables["AWS_ENDPOINT_URL"]) as ec2:
            name = await pooled_instance(ec2, CLUSTER)

        async def judged() -> bool:
            return (await self.findings("--skip", "mirror"))[0] == 2

        await wait_until(judged, "the instance is judged", every=0.1)
        return name

    async def become(self, role: dict[str, Any]) -> None:
        """From now on with the rights of this ClusterRole alone."""
        group, name = "rbac.authorization.k8s.io", str(role["metadata"]["name"])
        self.store.create("clusterroles", role, group=group)
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": name}],
        }
        self.store.create("clusterrolebindings", binding, group=group)
        account = {"metadata": {"name": name, "namespace": "default"}}
        self.store.create("serviceaccounts", account)
        path = Path(self.variables["KUBECONFIG"])
        kube = await connect(path)
        head = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        made = await kube.create(SERVICE_ACCOUNTS, head, "default", owner=name, subresource="token")
        await kube.close()
        config = json.loads(path.read_text())  # noqa: ASYNC240  a small file
        config["users"][0]["user"] = {"token": made["status"]["token"]}
        path.write_text(json.dumps(config))  # noqa: ASYNC240  a small file

    async def end(self, instance: str) -> None:
        async with whole_ec2(self.variables["AWS_ENDPOINT_URL"]) as ec2:
            await ec2.terminate_instances(InstanceIds=[instance])


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("audit"))
    asyncio.run(server.start())
    yield server
    asyncio.run(server.stop())


@pytest.fixture
async def world(
    redis_server: RedisServer,
    aws_emulator_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[World]:
    """With one pod, mirrored by a watcher that has every feature gate on."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    pods = next(one for one in KINDS if one.resource is PODS)
    control = Control(aws_emulator_url)
    control.post("reset")
    store = store_with_our_kinds()
    bus = Bus(redis_server.url, CLUSTER, clock=SystemClock(), random=random.Random(1))
    await call(bus.redis, "empty it", "FLUSHALL")
    with embedded_api_server(store=store) as url:
        async with watching(url, bus, redis_server.url, tmp_path, cluster_name=CLUSTER) as watcher:
            await watcher.create(pods, "web")
            await wait_until(lambda: "default/web" in watcher.mirror()["pods"], "it is mirrored")
        variables = {
            "KUBECONFIG": str(tmp_path / "direct"), "DOVETAIL_DIRECTORY": str(tmp_path),
            "REDIS_URL": redis_server.url, "CLUSTER_NAME": CLUSTER, "AWS_REGION": "us-west-2",
            "AWS_ENDPOINT_URL": aws_emulator_url, "AWS_ACCESS_KEY_ID": "t",
            "AWS_SECRET_ACCESS_KEY": "t", "COLUMNS": "250", "LAUNCH_TIMEOUT": "1h",
        }  # fmt: skip
        yield World(store, control, variables, bus, url)
    await bus.close()
    control.post("clear")


async def test_all_promises_hold_and_nothing_is_written(world: World) -> None:
    """OPS-14: by one reading, with no second one to wait for."""
    revision, calls = world.store.revision, len(world.control.get("calls")["calls"])
    done = await asyncio.to_thread(
        CliRunner().invoke, commands, ["audit"], env=world.variables, catch_exceptions=False
    )
    assert done.stdout.endswith("14 promises: 14 holds\n")
    assert done.exit_code == 0
    assert world.store.revision == revision
    made = world.control.get("calls")["calls"][calls:]
    assert {one["action"] for one in made} == {"DescribeInstances"}


@pytest.mark.slow
async def test_an_instance_that_somebody_started_by_hand_is_named(world: World) -> None:
    """OPS-14, I1: with its age and the command that ends it."""
    name = await world.stray_instance()
    code, found = await world.audit("--skip", "mirror")
    assert code == 2
    (broken,) = (one for one in found["promises"] if one["result"] == "broken")
    assert broken["promise"] == "each instance has a machine"
    (finding,) = broken["findings"]
    assert finding["object"] == name
    assert finding["since"]
    assert f"aws ec2 terminate-instances --instance-ids {name}" in finding["next"]


@pytest.mark.slow
async def test_watching_says_what_broke_and_what_holds_again(world: World) -> None:
    """OPS-14: the instance is ended between two readings. The pauses do the rest of the story."""
    name = await world.stray_instance()
    kube = await connect(Path(world.variables["KUBECONFIG"]))
    reader = partial(read, Installation(world.variables, kube, "dovetail", SystemClock()), ())
    ends = iter([False, True])

    async def pause(_: float) -> None:
        if next(ends, False):
            await world.end(name)

    seen = []
    async for _, changed in watched(reader, AT_ONCE, pause, seconds=60.0):
        seen += [(one.change, one.finding.subject) for one in changed if one.finding]
        if len(seen) > 1:
            break
    await kube.close()
    assert seen == [("broken", name), ("holds again", name)]


@pytest.mark.slow
async def test_a_watch_prints_all_promises_first_and_ends_with_what_was_broken(
    world: World,
) -> None:
    """OPS-14: for people a table; for programs one document per change."""
    name = await world.stray_instance()
    given = ["audit", "--watch", "--for", "0s", "--grace", "0s", "--skip", "mirror"]
    table, changes = [
        await asyncio.to_thread(
            CliRunner().invoke,
            commands,
            [*given, *more],
            env=world.variables,
            catch_exceptions=False,
        )
        for more in ([], ["-o", "json"])
    ]
    assert (table.exit_code, changes.exit_code) == (2, 2)
    assert f"each instance has a machine: {name}: no machine names it, since " in table.stdout
    assert table.stdout.endswith("14 promises: 11 holds, 1 broken, 2 skipped\n")
    (change,) = (json.loads(line) for line in changes.stdout.splitlines() if line[:1] == "{")
    assert (change["change"], change["object"]) == ("broken", name)


async def test_an_entry_that_the_mirror_lost_is_named(world: World) -> None:
    """I8: also one that it has and the API server has not."""
    pods = f"{world.bus.prefix}mirror:pods"
    stored = await call(world.bus.redis, "read", "HGET", pods, "default/web")
    await call(world.bus.redis, "lose one", "HDEL", pods, "default/web")
    await call(world.bus.redis, "add one", "HSET", pods, "default/other", stored)
    code, found = await world.findings("--skip", "ec2")
    promise = "the mirror equals the API server"
    assert found == {(promise, "pods default/web"), (promise, "pods default/other")}
    assert code == 2


async def test_the_role_of_the_page_is_enough(world: World) -> None:
    """OPS-14: docs/operating/audit.md has it."""
    (role,) = yaml.safe_load_all(ROLE.findall(PAGE.read_text())[0])
    await world.become(role)
    code, found = await world.findings()
    assert (code, found) == (0, set())


async def test_a_right_that_is_missing_is_named_and_the_rest_is_judged(world: World) -> None:
    """OPS-14: in Kubernetes and in AWS."""
    (role,) = yaml.safe_load_all(ROLE.findall(PAGE.read_text())[0])
    rules = [one for one in role["rules"] if "dovetail.sh" not in one["apiGroups"]]
    await world.become({**role, "rules": rules})
    fault = {"action": "DescribeInstances", "code": "UnauthorizedOperation", "status": 403}
    world.control.post("faults", **fault, count=50)
    code, found = await world.audit()
    why = {one["promise"]: one["why"] for one in found["promises"] if one["why"]}
    assert code == 1
    assert why["launch records end"] == (
        "you may not list launchrecords.dovetail.sh: the right is list"
    )
    assert "ec2:DescribeInstances" in why["each launched machine has its instance"]
    assert {one["result"] for one in found["promises"]} == {"holds", "not judged"}


async def test_the_console_says_the_same_of_the_queues_as_redis(world: World) -> None:
    clock = SystemClock()
    report = await queues(world.bus, clock)
    now = clock.now()
    read_here = await read_queues(world.bus)
    assert [one.stream for one in read_here] == [one.stream for one in queues_in(report, now)]
    assert [one.length for one in read_here] == [one.length for one in queues_in(report, now)]


@pytest.mark.slow
async def test_an_object_that_cannot_be_read_is_named_and_hides_no_other(world: World) -> None:
    bad = {"metadata": {"name": "bad"}, "spec": {"taints": [{"key": "a"}]}}
    world.store.create("nodes", bad)
    name = await world.stray_instance()
    code, found = await world.audit("--skip", "mirror")
    assert code == 2
    assert [one["object"] for one in found["unreadable"]] == ["Node/bad"]
    assert name in json.dumps(found)


async def test_a_cluster_that_does_not_answer_is_said_and_redis_is_judged(world: World) -> None:
    write_kubeconfig(Path(world.variables["KUBECONFIG"]), "http://127.0.0.1:9")
    code, found = await world.audit("--skip", "ec2")
    results = {one["promise"]: one["result"] for one in found["promises"]}
    assert code == 1
    assert results["machines become ready or go"] == "not judged"
    assert results["queues are bounded"] == "holds"


def test_a_mistake_is_refused(tmp_path: Path) -> None:
    variables = {"KUBECONFIG": str(tmp_path), "DOVETAIL_DIRECTORY": str(tmp_path)}
    for words, text in (
        (["--skip", "network"], "--skip: there is no network; there are cluster, ec2"),
        (["--for", "soon"], "--for='soon' is no duration"),
    ):
        done = CliRunner().invoke(commands, ["audit", *words], env=variables)
        assert text in str(done.exception)
