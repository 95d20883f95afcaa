"""``dovetail doctor`` on a whole installation: all is well, then one thing after the other is broken and named.

The API server, Redis and the emulator of AWS are real; the state that a launcher writes is laid down as it writes it.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.main import commands
from cli.operations.doctor.clocks import clocks
from cli.operations.doctor.finding import Installation
from cli.operations.doctor.rights import own
from local.cluster.builtin.manifests import create_account_objects, read_manifests
from local.cluster.storage.store import Store
from shared.concurrency.clock import SystemClock
from shared.distribution.files import packaged
from shared.kube.client import Kube
from shared.metrics import Metrics
from shared.redis.rights import OPERATOR, acl_file
from shared.runtime.services import Service
from shared.runtime.status import Listener, mount, server_loop
from tests.services.conftest import Control, store_with_our_kinds
from tests.support.clock.fake import FakeClock
from tests.support.cluster.fixture import connect, embedded_api_server, write_kubeconfig
from tests.support.network.status_server import free_port, running
from tests.support.redis.server import RedisServer

QUEUE = "dovetail-local"
RBAC = "rbac.authorization.k8s.io"


@dataclass
class World:
    """An installation, and the variables that name it."""

    store: Store
    control: Control
    variables: dict[str, str]
    missing: list[str]
    """What the scheduler waits for."""
    notes: list[str]
    """What it says is wrong beside its work."""

    async def doctor(self, *words: str) -> tuple[int, dict[str, dict[str, str]]]:
        """(exit code, check -> finding)."""
        given = ["doctor", "-o", "json", *words]
        done = await asyncio.to_thread(
            CliRunner().invoke, commands, given, env=self.variables, catch_exceptions=False
        )
        return done.exit_code, {one["check"]: one for one in json.loads(done.stdout)}

    async def failures(self, *groups: str) -> dict[str, dict[str, str]]:
        """What did not pass in these groups. A failure has a way to mend it, and the exit code says that there is
        one."""
        code, found = await self.doctor(*(f"--only={group}" for group in groups))
        wrong = {check: one for check, one in found.items() if one["state"] != "ok"}
        assert code == bool(wrong)
        assert all(one["mend"] for one in wrong.values())
        return wrong


@functools.cache
def manifests() -> list[Any]:
    """deploy/kubernetes, read once."""
    return list(read_manifests(packaged("deploy", "kubernetes")))


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("doctor"), persistent=True)
    asyncio.run(server.start())
    yield server
    asyncio.run(server.stop())


@pytest.fixture
async def world(
    redis_server: RedisServer, aws_emulator_url: str, tmp_path: Path
) -> AsyncIterator[World]:
    """Everything as it should be."""
    control = Control(aws_emulator_url)
    control.post("reset")
    store = store_with_our_kinds()
    create_account_objects(store, manifests())
    lay_down_class_and_claim(store)
    missing: list[str] = []
    notes: list[str] = []
    service = Service(
        "scheduler", [], Metrics("scheduler"), dict, lambda: missing, notes=lambda: notes
    )
    port = free_port()
    loop = server_loop(Listener(mount([service], SystemClock()), "127.0.0.1", port))
    with embedded_api_server(store=store) as url:
        async with running(loop, port):
            variables = {
                "KUBECONFIG": str(write_kubeconfig(tmp_path / "kubeconfig", url)),
                "DOVETAIL_DIRECTORY": str(tmp_path), "DOVETAIL_SCHEDULER_URL": f"http://127.0.0.1:{port}",
                "REDIS_URL": redis_server.url, "CLUSTER_NAME": QUEUE, "AWS_REGION": "us-west-2",
                "AWS_ENDPOINT_URL": aws_emulator_url, "AWS_ACCESS_KEY_ID": "t",
                "AWS_SECRET_ACCESS_KEY": "t", "COLUMNS": "250",
            }  # fmt: skip
            yield World(store, control, variables, missing, notes)
    control.post("clear")


def lay_down_class_and_claim(store: Store) -> None:
    """A dry run is answered before EC2 looks for what it names."""
    found: dict[str, Any] = {
        "subnets": [{"id": "subnet-1", "zone": "us-west-2a"}],
        "securityGroups": [{"id": "sg-1"}],
        "amis": [{"id": "ami-1", "requirements": []}],
    }
    terms = [{"tags": {"a": "b"}}]
    spec = {
        "amiSelectorTerms": [{"alias": "al2023@latest"}], "role": "r",
        "subnetSelectorTerms": terms, "securityGroupSelectorTerms": terms,
    }  # fmt: skip
    group_name = "karpenter.k8s.aws"
    metadata = {"name": "default"}
    store.create("ec2nodeclasses", {"metadata": metadata, "spec": spec}, group=group_name)
    set_status(store, "ec2nodeclasses", group_name, found)
    reference = {"group": group_name, "kind": "EC2NodeClass", "name": "default"}
    claim = {"metadata": metadata, "spec": {"requirements": [], "nodeClassRef": reference}}
    store.create("nodeclaims", claim, group="karpenter.sh")
    set_status(store, "nodeclaims", "karpenter.sh", {"providerID": "aws:///us-west-2a/i-1"})


def set_status(store: Store, plural: str, group: str, status: dict[str, Any]) -> None:
    found = copy.deepcopy(store.get(plural, "default", group=group))
    found["status"] = {**(found.get("status") or {}), **status}
    store.update(plural, found, group=group, subresource="status")


@pytest.mark.slow
async def test_all_is_well_and_nothing_was_changed(world: World, redis_server: RedisServer) -> None:
    revision = world.store.revision
    keys = await dump(redis_server)
    instances = world.control.alive()
    code, found = await world.doctor()
    assert {check: one for check, one in found.items() if one["state"] != "ok"} == {}
    assert code == 0
    assert {one["group"] for one in found.values()} == {
        "cluster", "rights", "services", "redis", "queue", "iam", "classes", "clocks",
    }  # fmt: skip
    assert world.store.revision == revision
    assert await dump(redis_server) == keys
    assert world.control.alive() == instances
    calls = world.control.get("calls")["calls"]
    reads = ("Describe", "Get", "List", "Receive")
    # Without an action: the request that reads the clock.
    writes = [one for one in calls if not one["action"].startswith(reads) and one["action"]]
    tried = {"CreateLaunchTemplate", "CreateFleet", "RunInstances", "TerminateInstances"}
    dry = {
        one["action"] for one in writes if str(one["parameters"].get("DryRun")).lower() == "true"
    }
    assert dry == tried
    # Of a message that does not exist: the queue's check tries the permissions so.
    queue = {"DeleteMessage", "ChangeMessageVisibility"}
    assert {one["action"] for one in writes} - dry <= queue


async def test_node_templates_alone_are_checked_as_well(world: World) -> None:
    """v1alpha5, as after the README's first steps: launches were not tried for want of an EC2NodeClass."""
    group, terms = "karpenter.k8s.aws", {"karpenter.sh/discovery": "a"}
    status = world.store.delete("ec2nodeclasses", "default", group=group)["status"]
    spec = {"subnetSelector": terms, "securityGroupSelector": terms}
    body = {"metadata": {"name": "default"}, "spec": spec}
    world.store.create("awsnodetemplates", body, group=group)
    set_status(world.store, "awsnodetemplates", group, status)
    assert await world.failures("iam", "classes") == {}


async def dump(server: RedisServer) -> list[bytes]:
    from shared.redis.bus.connection import call, connect

    redis = connect(server.url, connections=1)
    try:
        return sorted(await call(redis, "list", "KEYS", "*"))
    finally:
        await redis.aclose()


def remove_scheduler_rule(world: World) -> None:
    role = copy.deepcopy(world.store.get("clusterroles", "dovetail-scheduler", group=RBAC))
    role["rules"] = [rule for rule in role["rules"] if rule.get("resources") != ["pods/status"]]
    world.store.update("clusterroles", role, group=RBAC)


def change_definition(world: World) -> None:
    group = "apiextensions.k8s.io"
    name = "nodepools.karpenter.sh"
    found = copy.deepcopy(world.store.get("customresourcedefinitions", name, group=group))
    schema = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["weight"]["maximum"] = 7
    world.store.update("customresourcedefinitions", found, group=group)


def remove_definition(world: World) -> None:
    world.store.delete(
        "customresourcedefinitions", "nodeoverlays.karpenter.sh", group="apiextensions.k8s.io"
    )


def break_class(world: World) -> None:
    why = {
        "type": "Ready", "status": "False", "reason": "SubnetsNotFound", "message": "no subnet",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    set_status(world.store, "ec2nodeclasses", "karpenter.k8s.aws", {"conditions": [why]})


def deny(action: str) -> Callable[[World], None]:
    def act(world: World) -> None:
        fault = {"action": action, "code": "UnauthorizedOperation", "status": 403, "count": 50}
        world.control.post("faults", **fault)

    return act


@pytest.mark.slow
@pytest.mark.parametrize(
    ("break_it", "group", "check", "found", "mend"),
    [
        (remove_scheduler_rule, "rights", "rights of dovetail/dovetail-scheduler", "patch pods/status",
         "kubectl apply --server-side -k deploy"),
        (change_definition, "cluster", "CRD nodepools.karpenter.sh", "properties.weight.maximum",
         "kubectl apply --server-side -f deploy/crds/karpenter.sh_nodepools.yaml"),
        (remove_definition, "cluster", "CRD nodeoverlays.karpenter.sh", "not installed",
         "kubectl apply --server-side -f deploy/crds/karpenter.sh_nodeoverlays.yaml"),
        (lambda world: world.store.delete("namespaces", "dovetail"), "cluster", "namespace dovetail",
         "is being deleted", "kubectl apply -k deploy"),
        (break_class, "classes", "EC2NodeClass default", "SubnetsNotFound: no subnet",
         "kubectl edit ec2nodeclass default"),
        (deny("CreateFleet"), "iam", "EC2 allows CreateFleet", "", "deploy/iam"),
        (deny("TerminateInstances"), "iam", "EC2 allows TerminateInstances", "", "deploy/iam"),
        (deny("GetQueueAttributes"), "queue", "its attributes (sqs:GetQueueAttributes)", "", "deploy/iam"),
        (lambda world: world.missing.append("the mirror is not loaded"), "services", "service scheduler",
         "the mirror is not loaded", "dovetail logs scheduler"),
        (lambda world: world.notes.append("FEATURE_GATES=PodGroup=true has no effect"), "services",
         "note 1 of scheduler", "PodGroup=true has no effect", "dovetail logs scheduler"),
    ],
)  # fmt: skip
async def test_what_is_broken_is_named_with_what_mends_it(
    world: World, break_it: Callable[[World], None], group: str, check: str, found: str, mend: str
) -> None:
    break_it(world)
    wrong = await world.failures(group)
    assert [*wrong] == [check]
    assert wrong[check]["state"] == "failed"
    assert found in wrong[check]["found"]
    assert mend in wrong[check]["mend"]


@pytest.mark.parametrize(
    ("setting", "check"),
    [("maxmemory-policy allkeys-lru", "Redis evicts nothing"), ("maxmemory 1mb", "Redis memory")],
)
async def test_a_setting_of_redis_is_named(
    world: World, redis_server: RedisServer, setting: str, check: str
) -> None:
    from shared.redis.bus.connection import call, connect

    redis = connect(redis_server.url, connections=1)
    name, value = setting.split()
    _, before = await call(redis, "read", "CONFIG", "GET", name)
    try:
        await call(redis, "set", "CONFIG", "SET", name, value)
        assert [*await world.failures("redis")] == [check]
    finally:
        await call(redis, "set", "CONFIG", "SET", name, before)
        await redis.aclose()


async def test_a_redis_that_does_not_answer_or_asks_for_another_user(
    world: World, tmp_path: Path
) -> None:
    world.variables["REDIS_URL"] = "redis://127.0.0.1:9/0"
    assert (await world.failures("redis"))["Redis answers"]["state"] == "failed"
    (tmp_path / "users.acl").write_text(acl_file(QUEUE, {OPERATOR: "good", "launcher": "bad"}))
    extra = ["--aclfile", str(tmp_path / "users.acl")]
    async with RedisServer(tmp_path, extra_arguments=extra, login=(OPERATOR, "good")) as server:
        world.variables["REDIS_URL"] = server.url_of("launcher", "bad")
        wrong = await world.failures("redis")
        assert wrong["Redis"]["state"] == "not checked"
        world.variables["REDIS_URL"] = server.url_of(OPERATOR, "good")
        assert await world.failures("redis") == {}


async def test_what_cannot_be_checked_does_not_count_as_passed(world: World) -> None:
    for name in ("REDIS_URL", "AWS_REGION", "DOVETAIL_SCHEDULER_URL"):
        world.variables[name] = ""
    wrong = await world.failures()
    assert {one["state"] for one in wrong.values()} == {"not checked"}
    assert {one["group"] for one in wrong.values()} == {
        "services",
        "redis",
        "queue",
        "iam",
        "clocks",
    }


@pytest.mark.slow
async def test_who_may_not_impersonate_reads_that_rights_are_not_known(
    world: World, tmp_path: Path
) -> None:
    path = Path(world.variables["KUBECONFIG"])
    config = json.loads(path.read_text())  # noqa: ASYNC240  a small file
    kube = await connect(path)
    token = await account_token(kube, "dovetail-watcher")
    await kube.close()
    config["users"][0]["user"] = {"token": token}
    path.write_text(json.dumps(config))  # noqa: ASYNC240  a small file
    wrong = await world.failures("rights")
    assert wrong["rights of dovetail/dovetail-launcher"]["state"] == "not checked"
    assert "may not impersonate" in wrong["rights of dovetail/dovetail-launcher"]["found"]


async def test_rights_on_services_that_are_missing_are_named_one_by_one(world: World) -> None:
    """Three times the same text said neither which services nor that there are more."""
    path = Path(world.variables["KUBECONFIG"])
    kube = await connect(path)
    token = await account_token(kube, "dovetail-interruption")
    await kube.close()
    config = json.loads(path.read_text())  # noqa: ASYNC240  a small file
    config["users"][0]["user"] = {"token": token}
    path.write_text(json.dumps(config))  # noqa: ASYNC240  a small file
    kube = await connect(path)
    names = ("console", "interruption", "launcher", "scheduler")
    services = {
        f"DOVETAIL_{n.upper()}_URL": f"service://dovetail/dovetail-{n}:status" for n in names
    }
    found = {
        one.check: one async for one in own(Installation(services, kube, "dovetail", SystemClock()))
    }
    await kube.close()
    assert found["you may reach the services (services/proxy)"].found == (
        "you may not: get services/proxy dovetail-console:status in dovetail; "
        "get services/proxy dovetail-interruption:status in dovetail; "
        "get services/proxy dovetail-launcher:status in dovetail and 1 more"
    )


async def account_token(kube: Kube, name: str) -> str:
    from shared.kube.resources import SERVICE_ACCOUNTS

    head = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    made = await kube.create(SERVICE_ACCOUNTS, head, "dovetail", owner=name, subresource="token")
    return str(made["status"]["token"])


async def test_clocks_that_differ_are_named(world: World) -> None:
    kube = await connect(Path(world.variables["KUBECONFIG"]))
    ahead = FakeClock(wall=SystemClock().now() + 60)
    installation = Installation(world.variables, kube, "dovetail", ahead)
    found = {one.check: one async for one in clocks(installation)}
    await kube.close()
    assert {check: one.state for check, one in found.items()} == dict.fromkeys(
        ("API server's clock", "Redis' clock", "AWS's clock"), "failed"
    )
    assert all("behind this machine's" in one.found for one in found.values())


@pytest.mark.slow
async def test_a_cluster_that_does_not_answer_leaves_the_rest_to_be_checked(world: World) -> None:
    path = Path(world.variables["KUBECONFIG"])
    write_kubeconfig(path, "http://127.0.0.1:9")
    wrong = await world.failures("cluster", "redis")
    assert {one["group"] for one in wrong.values()} == {"cluster"}
    assert {one["state"] for one in wrong.values()} == {"not checked"}


def test_a_table_ends_with_the_commands_that_mend(tmp_path: Path) -> None:
    variables = {
        "KUBECONFIG": str(write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:9")),
        "DOVETAIL_DIRECTORY": str(tmp_path), "COLUMNS": "200", "REDIS_URL": "", "CLUSTER_NAME": "",
    }  # fmt: skip
    done = CliRunner().invoke(commands, ["doctor", "--only", "redis"], env=variables)
    assert done.exit_code == 1
    assert done.stdout.splitlines()[0].split() == ["GROUP", "CHECK", "RESULT", "FOUND"]
    assert "\nRedis: REDIS_URL is not set\n  -> kubectl port-forward" in done.stdout
    assert done.stdout.endswith("1 check, 1 not passed\n")


def test_an_unknown_group_is_refused(tmp_path: Path) -> None:
    variables = {"KUBECONFIG": str(tmp_path), "DOVETAIL_DIRECTORY": str(tmp_path)}
    done = CliRunner().invoke(commands, ["doctor", "--only", "network"], env=variables)
    assert done.exit_code == 1
    assert "there are no checks network; they are cluster, rights" in str(done.exception)
