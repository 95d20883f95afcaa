"""Machines taken away on a running stack, with kubectl where a person would use it (scenarios 28, 29, 34, 36, 52, 74,
79, 81, 82). Scenario 33 is in ``test_kubectl`` and ``test_scenarios``.

Instance families keep the tests apart: what one has run out of does not matter to the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cli.demo import workload
from cli.demo.scenarios import SCENARIOS
from cli.demo.snapshot import Snapshot
from cli.scheduler_status import ask
from local.probe import request_json
from local.stack import Stack
from local.stack_plan import HOST, SERVICES, clean_environment, free_ports
from shared.domain import labels as keys
from shared.domain.machines import EMPTY, INITIALIZED
from shared.domain.nodepools import V1
from shared.domain.nodes import provider_instance_id
from shared.errors import Conflict, DovetailError, NotFound
from shared.kube.resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODES
from tests.support.playground import Playground, ShellKubectl, playground_on, running_stack
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(180),
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed"),
]
FAST = {
    "BATCH_MAX_DURATION": "1s",
    "NOMINATION_MINIMUM": "1s",
    "VALIDATION_DELAY": "500ms",
    "DISRUPTION_PERIOD": "500ms",
}
LEASES = {"LEADER_ELECTION_NAMESPACE": "default"}
WITHOUT_SCHEDULER = tuple(name for name in SERVICES if name != "scheduler")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One stack for this file. Its services may be killed."""
    with running_stack(tmp_path_factory, **FAST) as running:
        yield running


@pytest.fixture
async def ground(stack: Stack) -> AsyncIterator[Playground]:
    async with playground_on(stack) as playground:
        yield playground


@pytest.fixture
def kubectl(stack: Stack) -> ShellKubectl:
    return ShellKubectl(stack)


async def seen(
    ground: Playground, what: str, reached: Callable[[Snapshot], bool], seconds: float = 40
) -> Snapshot:
    """The cluster as soon as it got there."""
    last = Snapshot()

    async def look() -> Snapshot | None:
        nonlocal last
        last = await ground.look()
        return last if reached(last) else None

    found = await wait_until(look, what, seconds=seconds, show=lambda: last)
    assert found is not None
    return found


def settled(count: int) -> Callable[[Snapshot], bool]:
    """So many pods run, every machine is ready, and nothing is on its way out."""

    def reached(now: Snapshot) -> bool:
        return (
            now.running == now.total == count
            and len(now.machines) == len(now.nodes) == len(now.live_instances)
            and all(INITIALIZED in m.reached and not m.leaving for m in now.machines)
        )

    return reached


def hourly(now: Snapshot) -> float:
    return sum(node.price_per_hour or 0.0 for node in now.nodes)


def logged(ground: Playground, service: str) -> list[str]:
    """Messages of one service's log so far."""
    lines = (ground.stack.directory / "logs" / f"{service}.log").read_text().splitlines()
    return [json.loads(line)["message"] for line in lines if line.startswith("{")]


def family(name: str) -> list[dict[str, Any]]:
    """Requirements: on-demand machines of one instance family."""
    return [
        {"key": keys.CAPACITY_TYPE, "operator": "In", "values": [keys.ON_DEMAND]},
        {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": [name]},
    ]


async def inflate(ground: Playground, kubectl: ShellKubectl, replicas: int, market: str) -> None:
    """The workshop's Deployment of one-core pods, on added nodes only."""
    document = workload.deployment(SCENARIOS["node-delete"])
    document["spec"]["template"]["spec"]["nodeSelector"] = {keys.CAPACITY_TYPE: market}
    await kubectl.apply(document)
    await scale(kubectl, replicas)
    await seen(ground, f"{replicas} pods run", settled(replicas), seconds=60)


async def scale(kubectl: ShellKubectl, replicas: int) -> None:
    await kubectl("scale", "deployment", "inflate", f"--replicas={replicas}")


async def consolidating_pool(ground: Playground, name: str) -> None:
    """A NodePool of one family that is consolidated at once."""
    policy = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"}
    requirements = {"template": {"spec": {"requirements": family(name)}}}
    cluster = ground.environment.cluster_name
    await workload.apply_pool(ground.kube, cluster, 1, V1)
    change = {"spec": {"disruption": policy, **requirements}}
    await ground.kube.patch(workload.NODE_POOLS, "default", change)


async def test_28_29_an_empty_node_goes_after_its_ttl_unless_a_pod_comes(
    ground: Playground, kubectl: ShellKubectl
) -> None:
    """The seeds' log lines included."""
    await workload.apply_pool(ground.kube, ground.environment.cluster_name, 4)
    await inflate(ground, kubectl, 1, keys.SPOT)
    (node,) = (await ground.look()).nodes
    await scale(kubectl, 0)
    await seen(ground, "the TTL runs", lambda now: any(EMPTY in m.reached for m in now.machines))
    await scale(kubectl, 1)
    await seen(
        ground,
        "the TTL is taken back",
        lambda now: now.running == 1 and all(EMPTY not in m.reached for m in now.machines),
    )
    assert [one.name for one in (await ground.look()).nodes if not one.leaving] == [node.name]
    await scale(kubectl, 0)
    await seen(ground, "all is gone", lambda now: not (now.nodes or now.live_instances))
    told = logged(ground, "scheduler")
    assert told.count("added TTL to empty node") >= 2
    assert "removed emptiness TTL from node" in told
    assert "triggering termination after 4s for empty node" in told
    assert {"cordoned node", "deleted node"} <= set(logged(ground, "terminator"))


@pytest.mark.parametrize("story", ["pdb-blocked", "drift"])
async def test_34_79_the_stories_come_out(ground: Playground, story: str) -> None:
    """34: a budget holds a drain and an event says so. 79: another template label, nodes replaced one by one."""
    report = await ground.play(story)
    problems = [report.failure, *(check.detail for check in report.checks if not check.ok)]
    assert report.ok, (problems, report.timeline[-30:])


@pytest.mark.nightly
async def test_36_a_node_whose_instance_is_gone_goes_without_a_drain(
    ground: Playground, kubectl: ShellKubectl
) -> None:
    """Its pods are held by a budget: a drain would never end."""
    await workload.apply_pool(ground.kube, ground.environment.cluster_name, 60)
    await inflate(ground, kubectl, 1, keys.SPOT)
    await kubectl.apply(workload.budget(most_unavailable=0))
    (node,) = (await ground.look()).nodes
    await asyncio.to_thread(terminate_instance, ground, provider_instance_id(node.provider_id))
    await kubectl("delete", "node", node.name, "--wait=true", "--timeout=30s")
    await seen(ground, "the pod runs elsewhere", lambda now: now.running == 1)


def terminate_instance(ground: Playground, instance_id: str) -> None:
    """What somebody does in the console."""
    boto3 = pytest.importorskip("boto3")
    variables = ground.stack.running().environment
    client = boto3.client(
        "ec2",
        endpoint_url=variables["AWS_ENDPOINT_URL"],
        region_name=variables["AWS_REGION"],
        aws_access_key_id="local",
        aws_secret_access_key="local",
    )
    client.terminate_instances(InstanceIds=[instance_id])


async def test_52_consolidation_follows_a_workload_from_10_to_6_to_1(
    ground: Playground, kubectl: ShellKubectl
) -> None:
    """v1alpha5: consolidation.enabled instead of the TTL; the log names method and types."""
    await workload.apply_pool(
        ground.kube,
        ground.environment.cluster_name,
        1,
        changes={
            "consolidation": {"enabled": True},
            "ttlSecondsAfterEmpty": None,
            "requirements": family("c5"),
        },
    )
    await inflate(ground, kubectl, 10, keys.ON_DEMAND)
    costs = [hourly(await ground.look())]
    for replicas in (6, 1):
        await scale(kubectl, replicas)
        now = await seen(
            ground,
            f"{replicas} pods on cheaper nodes",
            lambda now, n=replicas: settled(n)(now) and hourly(now) < costs[-1],
        )
        costs.append(hourly(now))
    told = [line for line in logged(ground, "scheduler") if line.startswith("deprovisioning via")]
    assert any("-node " in line and "machine from types c5." in line for line in told), told


async def test_74_a_replacement_without_capacity_puts_the_old_node_back_to_work(
    ground: Playground, kubectl: ShellKubectl
) -> None:
    """EXE-05."""
    await consolidating_pool(ground, "m5")
    await inflate(ground, kubectl, 10, keys.ON_DEMAND)
    (old,) = (await ground.look()).nodes
    control = f"{ground.environment.aws_endpoint_url}/_dovetail"
    empty = {"instanceType": "m5.*", "zone": "*", "capacityType": "on-demand", "available": 0}
    request_json(f"{control}/capacity", body=empty)
    try:
        await scale(kubectl, 2)
        await wait_until(
            lambda: "disruption rolled back" in logged(ground, "scheduler"),
            "the command is rolled back",
            seconds=40,
        )
        now = await seen(
            ground, "the old node serves again", lambda s: settled(2)(s) and not s.nodes[0].tainted
        )
        assert [node.name for node in now.nodes] == [old.name]
        assert len(now.live_instances) == 1
    finally:
        request_json(f"{control}/capacity", body=empty | {"available": None})


async def test_82_a_node_claim_of_nobody_launches_and_stays(
    ground: Playground, kubectl: ShellKubectl
) -> None:
    """It is empty, and it is nobody's to consolidate; `dovetail explain node` says why."""
    await ground.create(EC2_NODE_CLASSES, workload.node_class(ground.environment.cluster_name))
    claim = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "standalone"},
        "spec": {
            "nodeClassRef": {
                "group": "karpenter.k8s.aws",
                "kind": "EC2NodeClass",
                "name": "default",
            },
            "requirements": [
                {"key": keys.INSTANCE_TYPE, "operator": "In", "values": ["r5.large"]},
                {"key": keys.CAPACITY_TYPE, "operator": "In", "values": [keys.ON_DEMAND]},
            ],
        },
    }
    await kubectl.apply(claim)
    await kubectl("wait", "nodeclaim/standalone", "--for=condition=Initialized", "--timeout=30s")
    url = ground.environment.services["scheduler"]

    def why() -> str:
        return str(ask(f"{url}/explain", {"node": "standalone"})["staysBecause"][0]["text"])

    await wait_until(lambda: why() == "nodepool not found", "a pass looked at it", seconds=20)
    assert "deletionTimestamp" not in (await ground.kube.get(NODE_CLAIMS, "standalone"))["metadata"]
    await kubectl("delete", "nodeclaim", "standalone", "--wait=true", "--timeout=30s")


POINTS: dict[str, Callable[[Snapshot], bool]] = {
    "tainted": lambda now: any(node.tainted for node in now.nodes),
    "replacement made": lambda now: len(now.machines) > 1,
    "replacement ready": lambda now: (
        sum(INITIALIZED in machine.reached for machine in now.machines) > 1
    ),
    "old one deleted": lambda now: any(machine.leaving for machine in now.machines),
}
"""How far a command has come, as anybody can see it."""
NIGHTLY_SEEDS = 50


async def crash(ground: Playground, kubectl: ShellKubectl, seed: int) -> None:
    """Kill the scheduler at a drawn point of a command; what must hold in the end, and all the time."""
    random = Random(seed)
    point = random.choice(sorted(POINTS))
    await consolidating_pool(ground, "c6i")
    await inflate(ground, kubectl, 6, keys.ON_DEMAND)
    await kubectl.apply(workload.budget(most_unavailable=1))
    before = hourly(await ground.look())
    await scale(kubectl, 2)
    await seen(ground, "2 pods are left", lambda now: now.running == now.total == 2)
    await seen(ground, point, POINTS[point])
    await asyncio.sleep(random.uniform(0, 0.4))
    ground.part("scheduler").process.send(signal.SIGKILL)
    fewest = 2

    def over(now: Snapshot) -> bool:
        nonlocal fewest
        fewest = min(fewest, now.running)
        return settled(2)(now) and hourly(now) < before

    now = await seen(ground, f"the command ends ({point}, seed {seed})", over, seconds=60)
    assert fewest >= 1, "more pods were down than the budget allows"
    assert not any(node.tainted or node.cordoned for node in now.nodes)
    owned = {provider_instance_id(machine.provider_id) for machine in now.machines}
    assert owned == {instance.instance_id for instance in now.live_instances}


@pytest.mark.parametrize("seed", [3])
async def test_a_scheduler_killed_in_mid_command_leaves_nothing_behind(
    ground: Playground, kubectl: ShellKubectl, seed: int
) -> None:
    """EXE-02..06, DIS-02: no stray taint, no leaked instance, no pod below its budget."""
    await crash(ground, kubectl, seed)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(100, 100 + NIGHTLY_SEEDS))
async def test_a_scheduler_killed_anywhere_leaves_nothing_behind(
    ground: Playground, kubectl: ShellKubectl, seed: int
) -> None:
    """The same at fifty drawn points."""
    await crash(ground, kubectl, seed)


@pytest.mark.nightly
@pytest.mark.timeout(300)
async def test_81_a_standby_finishes_what_a_dead_leader_began(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Two schedulers: one acts. Killed in mid-command, the other takes its Lease and goes on."""
    with running_stack(tmp_path_factory, services=WITHOUT_SCHEDULER, **FAST, **LEASES) as stack:
        first, second = schedulers(stack)
        try:
            await wait_until(lambda: leads(first), "the first leads", seconds=60)
            second.start()
            await wait_until(lambda: leads(second) is False, "the second stands by", seconds=60)
            async with playground_on(stack) as ground:
                await fail_over(ground, ShellKubectl(stack), first, second)
        finally:
            first.stop()
            second.stop()


async def fail_over(
    ground: Playground, kubectl: ShellKubectl, first: Candidate, second: Candidate
) -> None:
    await consolidating_pool(ground, "c6i")
    await inflate(ground, kubectl, 6, keys.ON_DEMAND)
    before = hourly(await ground.look())
    await scale(kubectl, 2)
    await seen(ground, "a command began", POINTS["tainted"])
    assert leads(second) is False
    first.stop()
    await wait_until(lambda: leads(second), "the second leads", seconds=60)
    now = await seen(
        ground,
        "nothing is left half done",
        lambda now: settled(2)(now) and hourly(now) < before,
        seconds=60,
    )
    assert not any(node.tainted for node in now.nodes)
    assert len(now.machines) == len(now.live_instances) == 1


@dataclass
class Candidate:
    """A scheduler of our own beside a stack that has none."""

    url: str
    environment: dict[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "services.scheduler"],
                env=self.environment, stdout=log, stderr=log,
            )  # fmt: skip

    def stop(self) -> None:
        """kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)


def schedulers(stack: Stack) -> tuple[Candidate, Candidate]:
    """Two that elect a leader; the first is started."""
    shared = clean_environment(os.environ) | stack.running().environment | FAST | LEASES
    shared |= {"DISABLE_LEADER_ELECTION": "false", "STATUS_HOST": HOST}
    ports = free_ports(2, Random())
    first, second = (
        Candidate(
            f"http://{HOST}:{port}",
            shared | {"STATUS_PORT": str(port)},
            stack.directory / "logs" / f"scheduler-{port}.log",
        )
        for port in ports
    )
    first.start()
    return first, second


def leads(candidate: Candidate) -> bool | None:
    """None while it does not answer."""
    try:
        return bool(ask(f"{candidate.url}/status")["leading"])
    except DovetailError:
        return None


async def sabotage(ground: Playground, seconds: float) -> None:
    """Taint every new node NoExecute, for a while."""
    bad = {"key": "example.com/sabotage", "value": "true", "effect": "NoExecute"}
    ends = asyncio.get_running_loop().time() + seconds
    done: set[str] = set()
    while asyncio.get_running_loop().time() < ends:
        for raw in (await ground.kube.list(NODES, label_selector=keys.NODE_POOL)).items:
            name = raw["metadata"]["name"]
            if name in done:
                continue
            taints = [*(raw["spec"].get("taints") or []), bad]
            version = raw["metadata"]["resourceVersion"]
            change = {"metadata": {"resourceVersion": version}, "spec": {"taints": taints}}
            with contextlib.suppress(Conflict, NotFound):
                await ground.kube.patch(NODES, name, change)
                done.add(name)
        await asyncio.sleep(0.05)


@pytest.mark.nightly
@pytest.mark.timeout(400)
async def test_a_saboteur_who_taints_every_node_does_not_make_us_buy_for_ever(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A node boots in a second here, and no nomination holds the pods: without a limit there would be dozens in two
    minutes. The pool says why it waits."""
    with running_stack(tmp_path_factory, **FAST, NOMINATE="off") as stack:
        async with playground_on(stack) as ground:
            kubectl = ShellKubectl(stack)
            await consolidating_pool(ground, "c6a")
            saboteur = asyncio.create_task(sabotage(ground, 120))
            document = workload.deployment(SCENARIOS["node-delete"])
            document["spec"]["template"]["spec"]["nodeSelector"] = {
                keys.CAPACITY_TYPE: keys.ON_DEMAND
            }
            await kubectl.apply(document)
            await scale(kubectl, 2)
            bought: set[str] = set()
            while not saboteur.done():
                bought |= {machine.name for machine in (await ground.look()).machines}
                await asyncio.sleep(0.1)
            await saboteur
            assert 2 <= len(bought) <= 10
            reasons = {reason for reason, _ in await ground.warnings("NodePool", "default")}
            assert "LaunchHeldBack" in reasons


async def dovetail(ground: Playground, *words: str) -> str:
    """What the command prints, for the stack of this file. It must succeed."""
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "cli.main", *words, "--directory", str(ground.stack.directory)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_halt_and_resume_are_heeded(ground: Playground, kubectl: ShellKubectl) -> None:
    """A node that would go stays, `dovetail explain node` says why and what to do, and doing that lets it go."""
    await consolidating_pool(ground, "r6i")
    await inflate(ground, kubectl, 1, keys.ON_DEMAND)
    assert "halted: NodePool/default" in await dovetail(ground, "halt")
    (node,) = (await ground.look()).nodes
    await scale(kubectl, 0)

    async def explained() -> list[str]:
        answer = json.loads(await dovetail(ground, "explain", "node", node.name, "-o", "json"))
        return [one["change"] for one in answer["staysBecause"]]

    way_out = "dovetail resume --pool NodePool/default"

    async def says_so() -> bool:
        return way_out in await explained()

    await wait_until(says_so, "it says what holds it", seconds=30)
    assert f"-> {way_out}\n" in await dovetail(ground, "explain", "node", node.name)
    assert "deletionTimestamp" not in (await ground.kube.get(NODES, node.name))["metadata"]
    assert "resumed: " in await dovetail(ground, *way_out.split()[1:])
    await seen(ground, "the empty node goes", lambda now: not now.nodes)
