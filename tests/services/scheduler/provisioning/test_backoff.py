"""Machines that none of their pods ever runs on (chaos: a saboteur taints every new node)."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from services.scheduler.provisioning.backoff import (
    FORGOTTEN_SECONDS,
    FREE_ATTEMPTS,
    LONGEST_PAUSE_SECONDS,
    STABLE_SECONDS,
    Hold,
    ProvisioningBackoff,
    pause_after,
)
from shared.domain.instance_types.types import Offering
from shared.domain.machines.machine import INITIALIZED, Condition, Machine
from shared.domain.workloads.pods import Owner, Pod
from shared.solver.plan import Plan, PlannedMachine
from tests.support.planning.builders import make_bound_pod, make_machine, make_pod

POOL = "Provisioner/default"
WEB = Owner("ReplicaSet", "web", "uid-web")
BOOT_SECONDS = 1.0
EPOCH = 1_000_000.0


def make_plan(machines: dict[str, tuple[str, ...]]) -> Plan:
    """Name -> UIDs of pods; all of one pool."""
    planned = tuple(
        PlannedMachine(
            name=name,
            pool="default",
            pool_key=POOL,
            node_class="default",
            pods=pods,
            instance_types=("m5.large",),
            requirements=(),
            requests={},
            labels={},
            taints=(),
            startup_taints=(),
            instance_type="m5.large",
            offering=Offering("z-a", "spot", 1),
        )
        for name, pods in machines.items()
    )
    return Plan("plan", 1, planned, {}, {})


def initialised(name: str) -> Machine:
    return make_machine(
        name, node_name=f"node-{name}", conditions={INITIALIZED: Condition("True", INITIALIZED)}
    )


@dataclass
class Town:
    """A cluster second by second: machines boot, and a plan is made while pods wait."""

    backoff: ProvisioningBackoff = field(default_factory=ProvisioningBackoff)
    machines: dict[str, Machine] = field(default_factory=dict)
    born: dict[str, float] = field(default_factory=dict)
    pods: list[Pod] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)

    def second(self, now: float, want: int, prefix: str = "web") -> list[str]:
        """A plan for ``want`` machines, each for a pod that has waited from the start; those that may be bought."""
        for name, at in self.born.items():
            if now - at >= BOOT_SECONDS:
                self.machines[name] = initialised(name)
        self.backoff.check(self.machines, self.pods, now=EPOCH + now)
        waiting = [make_pod(f"{prefix}{i}", owner=WEB) for i in range(want)]
        plan = make_plan({f"m-{now}-{i}": (pod.uid,) for i, pod in enumerate(waiting)})
        allowed, self.holds = self.backoff.judge(
            plan, [*self.pods, *waiting], self.machines, now=now
        )
        for planned in allowed:
            self.machines[planned.name] = make_machine(planned.name)
            self.born[planned.name] = now
        return [planned.name for planned in allowed]

    def booting(self, now: float) -> bool:
        """Is there capacity under way, so that no plan wants more?"""
        return any(now - at < BOOT_SECONDS for at in self.born.values())


def test_a_saboteur_gets_ten_nodes_in_five_minutes_at_most() -> None:
    town = Town()
    for now in range(300):
        if not town.booting(now):
            town.second(now, want=3)
    assert 3 <= len(town.born) <= 10
    (hold,) = town.holds
    assert (hold.pool_key, hold.workload) == (POOL, WEB.uid)
    assert hold.attempts >= FREE_ATTEMPTS
    assert hold.seconds > 0


def test_pods_that_run_for_a_moment_and_are_thrown_off_count_as_not_taken() -> None:
    """NoExecute after the fact."""
    town = Town()
    for now in range(300):
        town.pods = [
            replace(
                make_bound_pod(f"short-{node}", f"node-{node}", owner=WEB),
                started_at=EPOCH + now - 0.5, terminating=True, phase="Running",
            )
            for node in town.machines
        ]  # fmt: skip
        if not town.booting(now):
            town.second(now, want=1, prefix=f"second-{now}-")
    assert 2 <= len(town.born) <= 10


def test_a_burst_of_hundreds_of_machines_in_many_plans_is_not_slowed() -> None:
    """While machines of the workload boot, nothing is judged."""
    town = Town()
    for step in range(20):
        assert len(town.second(step * BOOT_SECONDS / 25, want=40)) == 40
    assert town.holds == []


def test_new_pods_of_a_workload_are_no_sign_while_kube_scheduler_is_behind() -> None:
    """All machines of the first plan are ready, nothing is bound yet, and the workload grows."""
    town = Town()
    town.second(0.0, want=300)
    assert len(town.second(5.0, want=300, prefix="more")) == 300


def test_a_node_that_took_its_pods_makes_everything_good() -> None:
    town = Town()
    for now in (0.0, 2.0):
        town.second(now, want=1)
    assert town.second(4.0, want=1) == []
    town.pods = [
        replace(
            make_bound_pod("web", "node-m-2.0-0", owner=WEB, started_at=EPOCH + 3.0),
            phase="Running",
        )
    ]
    assert len(town.second(4.0 + STABLE_SECONDS, want=50)) == 50


def test_after_an_attempt_in_vain_one_machine_is_bought_to_see() -> None:
    town = Town()
    assert len(town.second(0.0, want=5)) == 5
    assert len(town.second(2.0, want=5)) == 1


def test_machines_without_capacity_do_not_count() -> None:
    """They are gone before they were initialised: the next offering is tried at once."""
    town = Town()
    for now in range(20):
        assert len(town.second(now * 0.1, want=1)) == 1
        town.machines.clear()
        town.born.clear()


def test_another_workload_is_not_held() -> None:
    town = Town()
    for now in (0.0, 2.0, 4.0):
        town.second(now, want=1)
    other = make_pod("other", owner=Owner("ReplicaSet", "api", "uid-api"))
    plan = make_plan({"m-other": (other.uid,)})
    allowed, holds = town.backoff.judge(plan, [other], town.machines, now=5.0)
    assert [planned.name for planned in allowed] == ["m-other"]
    assert holds == []


def test_old_attempts_are_forgotten() -> None:
    town = Town()
    for now in (0.0, 2.0):
        town.second(now, want=1)
    assert len(town.second(2.0 + FORGOTTEN_SECONDS + 1, want=3)) == 3


@given(st.integers(0, 10_000))
def test_pauses_grow_and_have_an_end(attempts: int) -> None:
    assert pause_after(attempts) <= pause_after(attempts + 1) <= LONGEST_PAUSE_SECONDS
