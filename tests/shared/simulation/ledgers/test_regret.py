"""What consolidations saved against their promise, in the log's own words: machines, pods, prices and decisions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from shared.disruption.global_consolidation.churn import Churn
from shared.disruption.records import Command
from shared.domain import labels as keys
from shared.domain.feature_gates import FeatureGates
from shared.domain.machines.commands import CommandRecord, written
from shared.domain.machines.machine import INSTANCE_TERMINATING, LAUNCHED, Condition, Machine
from shared.simulation.decisions.changes import Versions
from shared.simulation.decisions.names import digest_of
from shared.simulation.decisions.records import (
    CommandOutcome,
    DecisionRecord,
    Input,
    PassQuestion,
    ValidationOutcome,
    ValidationQuestion,
    encode_outcome,
)
from shared.simulation.ledgers.instances import HOUR
from shared.simulation.ledgers.regret import (
    BOUGHT_AGAIN,
    METHODS,
    ROLLED_BACK,
    STILL,
    Account,
    Regret,
)
from shared.solver.solve import SolverSettings
from tests.support.planning.builders import ZONES, make_machine
from tests.support.planning.disruption import NOW, make_running, pods_on

SMALL, LARGE = "m5.x004", "m5.x008"
PRICES = {(SMALL, ZONES[0], "on-demand"): 200_000, (LARGE, ZONES[0], "on-demand"): 400_000}


class Course:
    """A large machine with two pods, and a small one; a command removes the large one."""

    def __init__(self, *targets: str, replacements: tuple[str, ...] = ()) -> None:
        self.regret = Regret()
        self.large = make_running("large", LARGE).machine
        self.small = make_running("small", SMALL).machine
        self.regret.priced(PRICES)
        for machine in (self.large, self.small):
            self.see(0, machine)
        for pod in pods_on("large", 2):
            self.regret.pod(pod.key, pod)
        keys_ = tuple(f"{self.large.kind}/{name}" for name in replacements)
        self.command = CommandRecord(
            "c1", "single-node", "Underutilized", (self.large.key,), keys_, NOW, True
        )
        self.decide(*targets)

    def decide(self, *targets: str) -> None:
        outcome = CommandOutcome(
            self.command.method, self.command.reason, self.command.candidates, (), targets,
            400_000, 2, "delete 1 node(s)",
        )  # fmt: skip
        self.regret.decided(decided(self.command.id, outcome))
        self.see(0, held(self.large, self.command))

    def see(self, at: float, machine: Machine) -> None:
        self.regret.machine(NOW + at, machine.key, machine)

    def gone(self, at: float, machine: Machine) -> None:
        """Deleted, its instance ended, and its object went."""
        going = replace(machine, terminating=True, deleted_at=NOW + at)
        self.see(at, going)
        ended = {INSTANCE_TERMINATING: Condition("True", INSTANCE_TERMINATING, "", NOW + at)}
        self.see(at, replace(going, conditions={**going.conditions, **ended}))
        self.regret.machine(NOW + at + 60, machine.key, None)

    def bought(self, at: float, kind: str, name: str = "again") -> Machine:
        made = make_running(
            name, kind, created_at=NOW + at,
            conditions={LAUNCHED: Condition("True", LAUNCHED, "", NOW + at)},
        ).machine  # fmt: skip
        self.see(at, made)
        return made

    @property
    def account(self) -> Account:
        return self.regret.accounts["c1"]


def held(machine: Machine, command: CommandRecord) -> Machine:
    return replace(machine, annotations={keys.COMMAND_ANNOTATION: written(command)})


def decided(id_: str, command: CommandOutcome) -> DecisionRecord:
    """A validation whose command starts. A pod's move is assumed to cost 10,000."""
    world = PassQuestion(
        NOW, "v1alpha5", SolverSettings(), FeatureGates(), "Karpenter", Churn(10_000)
    )
    asked = ValidationQuestion(world, Command(command.method, command.reason, ()))
    body = encode_outcome(ValidationOutcome(command))
    return DecisionRecord(
        id_, "validation", NOW, 0.0, 1, "made", Versions("1.0.0", "", "3.11"), Input("", 1, ""),
        asked, digest_of(body), msgspec.Raw(body), "made",
    )  # fmt: skip


def test_a_machine_that_is_gone_saves_its_price_from_the_end_of_its_instance() -> None:
    course = Course("small")
    course.gone(HOUR / 4, course.large)
    account, end = course.account, NOW + HOUR
    assert (account.saved(end), account.promised(end)) == (300_000, 400_000)
    assert (account.moved_pods, account.move_cost()) == (2, 20_000)
    assert (account.net(end), account.why) == (280_000, STILL)


def test_it_ends_when_a_node_that_took_its_pods_goes() -> None:
    course = Course("small")
    course.gone(0, course.large)
    course.gone(HOUR, course.small)
    assert course.account.saved(NOW + 10 * HOUR) == 400_000
    assert course.account.why == "small went"


def test_a_replacement_costs_from_its_launch_on() -> None:
    course = Course(replacements=("machine-new",))
    course.bought(0, SMALL, "new")
    course.gone(HOUR / 2, course.large)
    assert course.account.saved(NOW + HOUR) == 400_000 / 2 - 200_000
    assert course.account.net(NOW + HOUR) == -20_000, "moves count"
    assert course.regret.totals(NOW + HOUR)[0].regretted == 1


def test_what_is_bought_again_in_the_pool_counts_against_it() -> None:
    course = Course("small")
    course.gone(0, course.large)
    course.bought(HOUR, SMALL)
    assert course.account.saved(NOW + 2 * HOUR) == 400_000 + 200_000
    course.bought(2 * HOUR, LARGE, "more")
    assert course.account.saved(NOW + 9 * HOUR) == 400_000 + 200_000
    assert course.account.why == BOUGHT_AGAIN


def test_the_latest_command_pays_first_and_never_more_than_it_saves() -> None:
    course = Course("small")
    course.gone(0, course.large)
    other = make_running("other", SMALL).machine
    course.see(0, other)
    command = CommandRecord("c2", "emptiness", "Empty", (other.key,), (), NOW + 1)
    course.see(1, held(other, command))
    course.gone(1, other)
    course.bought(HOUR, LARGE)
    first, second = course.regret.accounts.values()
    assert [sum(amount for _, amount in one.bought) for one in (first, second)] == [
        200_000,
        200_000,
    ]
    assert (first.why, second.why) == (STILL, BOUGHT_AGAIN)


@pytest.mark.parametrize("how", [{"name": "by-hand", "created_at": NOW - 60}, {"pool": "others"}])
def test_another_pool_and_what_was_there_before_count_nothing(how: dict[str, Any]) -> None:
    course = Course("small")
    labels = {keys.INSTANCE_TYPE: LARGE, keys.ZONE: ZONES[0], keys.CAPACITY_TYPE: "on-demand"}
    fields = {"name": "by-hand", "pool": "default", "created_at": NOW + 60, **how}
    course.see(60, make_machine(**fields, provider_id="aws:///a/i-1", labels=labels))
    assert course.account.bought == []


def test_a_command_that_is_taken_back_costs_what_its_replacement_cost() -> None:
    course = Course(replacements=("machine-new",))
    course.bought(0, SMALL, "new")
    course.see(HOUR / 2, replace(course.large, annotations={}))
    assert course.account.saved(NOW + HOUR) == -100_000
    assert (course.account.why, course.account.moved_pods) == (ROLLED_BACK, 0)


def test_drift_promises_no_saving_and_has_no_account() -> None:
    course = Course("small")
    drift = CommandRecord("c3", "drift", "Drifted", (course.small.key,), (), NOW)
    course.see(0, held(course.small, drift))
    assert list(course.regret.accounts) == ["c1"]
    assert "drift" not in METHODS
