"""Processes killed and nodes spoiled while machines come and go (EXE-02..06, DIS-02, ACC-81; F25, F29).

The same moments of death, every one of them, are in ``tests/services/{scheduler,terminator}/test_crash.py`` without
processes; here the processes are real, and so is what they leave behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from cli.demo import workload
from cli.demo.scenarios import SCENARIOS
from cli.demo.snapshot import Snapshot
from cli.operations.scheduler_status import ask
from local.stack import Stack
from local.stack_plan import ACCOUNTS, HOST, SERVICES, clean_environment, free_ports
from local.stack_plan import NAMESPACE as LEASE_NAMESPACE
from shared.domain import labels as keys
from shared.domain.machines.machine import INITIALIZED
from shared.domain.nodes import provider_instance_id
from shared.errors import Conflict, DovetailError, NotFound
from shared.kube.resources import NODES
from tests.support.cluster.kubectl import NEEDS_KUBECTL
from tests.support.stories.audited import wait_until_all_promises_hold
from tests.support.stories.playground import (
    POLL_SECONDS,
    SERVICE_SETTINGS,
    Playground,
    ShellKubectl,
    playground_on,
    running_stack,
)
from tests.support.stories.scale_down import (
    consolidating_pool,
    hourly,
    inflate,
    scale,
    seen,
    settled,
)
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.e2e,
    NEEDS_KUBECTL,
]
LEASES = {"LEADER_ELECTION_NAMESPACE": LEASE_NAMESPACE}
WITHOUT_SCHEDULER = tuple(name for name in SERVICES if name != "scheduler")


POINTS: dict[str, Callable[[Snapshot], bool]] = {
    "tainted": lambda now: any(node.tainted for node in now.nodes),
    "replacement made": lambda now: len(now.machines) > 1,
    "replacement ready": lambda now: (
        sum(INITIALIZED in machine.reached for machine in now.machines) > 1
    ),
    "old one deleted": lambda now: any(machine.leaving for machine in now.machines),
    "old one empty": lambda now: any(node.leaving and not node.pods for node in now.nodes),
    "instance ends": lambda now: bool(now.machines) and len(now.live_instances) < len(now.machines),
}
"""How far a command has come, as anybody can see it."""
VICTIMS = (("scheduler",), ("terminator",), ("scheduler", "terminator"))
CLOSE_SECONDS = 0.02
"""Some points last for a moment only."""
NIGHTLY_SEEDS = 50


async def crash(playground: Playground, kubectl: ShellKubectl, seed: int) -> None:
    """Kill scheduler, terminator or both at a drawn point of a command; what must hold in the end, and all the time."""
    random = Random(seed)
    point, victims = random.choice(sorted(POINTS)), random.choice(VICTIMS)
    story = f"{' and '.join(victims)} killed at {point!r}, seed {seed}"
    await consolidating_pool(playground, "c6i")
    await inflate(playground, kubectl, 6, keys.ON_DEMAND)
    await kubectl.apply(workload.budget(most_unavailable=1))
    before = hourly(await playground.look())
    await scale(kubectl, 2)
    fewest = 2

    def watched(reached: Callable[[Snapshot], bool]) -> Callable[[Snapshot], bool]:
        def look(now: Snapshot) -> bool:
            nonlocal fewest
            fewest = min(fewest, now.running)
            return reached(now)

        return look

    there = watched(lambda s: s.total == 2 and POINTS[point](s))
    await seen(playground, f"{point} (seed {seed})", there, every=CLOSE_SECONDS)
    await asyncio.sleep(random.uniform(0, 0.4))
    for name in victims:
        (await playground.process(name)).send(signal.SIGKILL)
    over = watched(lambda s: settled(2)(s) and hourly(s) < before)
    now = await seen(playground, f"the command ends ({story})", over)
    assert fewest >= 1, f"more pods were down than the budget allows ({story})"
    assert not any(node.tainted or node.cordoned for node in now.nodes), story
    owned = {provider_instance_id(machine.provider_id) for machine in now.machines}
    assert owned == {instance.instance_id for instance in now.live_instances}, story
    await wait_until_all_promises_hold(playground, f"({story})")


async def test_a_process_killed_in_mid_command_leaves_nothing_behind(
    playground: Playground, kubectl: ShellKubectl
) -> None:
    """EXE-02..06, DIS-02: no stray taint, no leaked instance, no pod below its budget."""
    await crash(playground, kubectl, 110)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(100, 100 + NIGHTLY_SEEDS))
async def test_processes_killed_anywhere_leave_nothing_behind(
    playground: Playground, kubectl: ShellKubectl, seed: int
) -> None:
    """The same at fifty drawn points."""
    await crash(playground, kubectl, seed)


@pytest.mark.nightly
@pytest.mark.timeout(300)
async def test_81_a_standby_finishes_what_a_dead_leader_began(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Two schedulers: one acts. Killed in mid-command, the other takes its Lease and goes on."""
    with running_stack(tmp_path_factory, services=WITHOUT_SCHEDULER, **LEASES) as stack:
        first, second = schedulers(stack)
        try:
            await wait_until(lambda: leads(first), "the first leads")
            second.start()
            await wait_until(lambda: leads(second) is False, "the second stands by")
            async with playground_on(stack) as playground:
                await fail_over(playground, ShellKubectl(stack), first, second)
        finally:
            first.stop()
            second.stop()


async def fail_over(
    playground: Playground, kubectl: ShellKubectl, first: Candidate, second: Candidate
) -> None:
    await consolidating_pool(playground, "c6i")
    await inflate(playground, kubectl, 6, keys.ON_DEMAND)
    before = hourly(await playground.look())
    await scale(kubectl, 2)
    await seen(playground, "a command began", POINTS["tainted"])
    assert leads(second) is False
    first.stop()
    await wait_until(lambda: leads(second), "the second leads")
    now = await seen(
        playground,
        "nothing is left half done",
        lambda now: settled(2)(now) and hourly(now) < before,
    )
    assert not any(node.tainted for node in now.nodes)
    assert len(now.machines) == len(now.live_instances) == 1
    await wait_until_all_promises_hold(playground)


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
    shared = clean_environment(os.environ) | stack.running().environment | SERVICE_SETTINGS | LEASES
    # With the rights of the account that deploy/kubernetes gives a scheduler, the Lease among them.
    account = stack.directory / ACCOUNTS / LEASE_NAMESPACE / "dovetail-scheduler"
    shared |= {"KUBECONFIG": str(account), "SYSTEM_NAMESPACE": LEASE_NAMESPACE}
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


async def sabotage(playground: Playground, seconds: float) -> None:
    """Taint every new node NoExecute, for a while."""
    bad = {"key": "example.com/sabotage", "value": "true", "effect": "NoExecute"}
    ends = asyncio.get_running_loop().time() + seconds
    done: set[str] = set()
    while asyncio.get_running_loop().time() < ends:
        for raw in (await playground.kube.list(NODES, label_selector=keys.NODE_POOL)).items:
            name = raw["metadata"]["name"]
            if name in done:
                continue
            taints = [*(raw["spec"].get("taints") or []), bad]
            version = raw["metadata"]["resourceVersion"]
            change = {"metadata": {"resourceVersion": version}, "spec": {"taints": taints}}
            with contextlib.suppress(Conflict, NotFound):
                await playground.kube.patch(NODES, name, change)
                done.add(name)
        await asyncio.sleep(0.05)


@pytest.mark.nightly
@pytest.mark.timeout(400)
async def test_a_saboteur_who_taints_every_node_does_not_make_us_buy_for_ever(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A node boots in a second here, and no nomination holds the pods: without a limit there would be dozens in two
    minutes. The pool says why it waits."""
    with running_stack(tmp_path_factory, SERVICES, NOMINATE="off") as stack:
        async with playground_on(stack) as playground:
            kubectl = ShellKubectl(stack)
            await consolidating_pool(playground, "c6a")
            saboteur = asyncio.create_task(sabotage(playground, 120))
            document = workload.deployment(SCENARIOS["node-delete"])
            document["spec"]["template"]["spec"]["nodeSelector"] = {
                keys.CAPACITY_TYPE: keys.ON_DEMAND
            }
            await kubectl.apply(document)
            await scale(kubectl, 2)
            bought: set[str] = set()
            while not saboteur.done():
                bought |= {machine.name for machine in (await playground.look()).machines}
                await asyncio.sleep(POLL_SECONDS)
            await saboteur
            assert 2 <= len(bought) <= 10
            reasons = {reason for reason, _ in await playground.warnings("NodePool", "default")}
            assert "LaunchHeldBack" in reasons
