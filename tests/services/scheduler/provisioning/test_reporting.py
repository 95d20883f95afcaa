"""What people get to know of a plan (API-04, SCH-110..113, POD-03, POD-08)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from services.scheduler.provisioning.backoff import Hold
from services.scheduler.provisioning.reporting import MOST_POD_EVENTS, PlanReporter
from services.scheduler.state.decisions import DecisionLog
from services.scheduler.state.obstacles import Obstacles
from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.machines.machine import INITIALIZED, Condition
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.domain.snapshot import Snapshot
from shared.kube.recorder import Recorder
from tests.support.clock.fake import FakeClock
from tests.support.planning.builders import (
    make_machine,
    make_node,
    make_node_class,
    make_pod,
    make_pods,
    make_pool,
    make_snapshot,
)
from tests.support.planning.snapshots import plan_for

GENERATIONS = pytest.mark.parametrize(
    ("generation_api", "noun"), [(V1, "nodeclaim"), (V1ALPHA5, "machine")]
)


@dataclass
class Listener:
    """Hears events in the place of the API server."""

    events: list[tuple[str, str, str, float | None]] = field(default_factory=list)

    async def publish(
        self, involved: dict[str, str], kind: str, reason: str, message: str, **options: Any
    ) -> None:
        """Type, reason and text of an event, and for how long it is not repeated."""
        self.events.append((involved["name"], reason, message, options.get("dedupe_seconds")))


@dataclass
class Room:
    """A reporter and those who hear it."""

    listener: Listener = field(default_factory=Listener)

    def __post_init__(self) -> None:
        self.reporter = PlanReporter(
            cast(Recorder, self.listener), {}, DecisionLog(FakeClock()), Obstacles(FakeClock())
        )

    async def report(self, snapshot: Snapshot) -> tuple[list[Any], list[dict[str, Any]]]:
        """Events and log lines of one plan whose machines are all created."""
        self.listener.events.clear()
        plan = plan_for(snapshot)
        with capture_logs() as lines:
            await self.reporter.report(plan, snapshot, list(plan.machines))
        return list(self.listener.events), [dict(line) for line in lines]


@pytest.fixture
def room() -> Room:
    return Room()


def cluster(generation_api: str, **changes: Any) -> Snapshot:
    pool = make_pool(generation_api=generation_api, **changes.pop("pool", {}))
    classes = (make_node_class(generation_api=generation_api),)
    return make_snapshot(make_pod("web"), pools=(pool,), node_classes=classes, **changes)


@GENERATIONS
async def test_a_pod_hears_of_the_machine_that_is_made_for_it(
    room: Room, generation_api: str, noun: str
) -> None:
    """SCH-110: the event Nominated."""
    ((pod, reason, text, _),), _ = await room.report(cluster(generation_api))
    assert (pod, reason) == ("web", "Nominated")
    assert text.startswith(f"Pod should schedule on: {noun}/default-")


@GENERATIONS
async def test_a_pod_hears_of_the_node_and_its_machine(
    room: Room, generation_api: str, noun: str
) -> None:
    """SCH-110: of a node that is nobody's machine only the node."""
    machine = make_machine(
        "default-a", generation_api=generation_api, node_name="n", provider_id="aws:///a/i-1",
        conditions={INITIALIZED: Condition("True", INITIALIZED, "", 0.0)},
    )  # fmt: skip
    node = make_node("n", provider_id="aws:///a/i-1")
    ((_, _, text, _),), _ = await room.report(
        cluster(generation_api, machines=(machine,), nodes=(node,))
    )
    assert text == f"Pod should schedule on: {noun}/default-a, node/n"
    ((_, _, text, _),), _ = await room.report(cluster(generation_api, nodes=(make_node("n"),)))
    assert text == "Pod should schedule on: node/n"


async def test_a_pool_that_filters_every_type_out_is_told_so(room: Room) -> None:
    """SCH-112, SCH-113; the log says it once (OPS-22)."""
    nothing = Expression(keys.INSTANCE_TYPE, "In", ("z9.none",))
    snapshot = cluster(V1, pool={"requirements": (nothing,)})
    events, lines = await room.report(snapshot)
    assert [(name, reason, again) for name, reason, _, again in events] == [
        ("web", "FailedScheduling", 300.0),
        ("default", "NoCompatibleInstanceTypes", 60.0),
    ]
    skipping = "skipping, no resolved instance types found"
    assert [line["pool"] for line in lines if line["event"] == skipping] == ["NodePool/default"]
    _, lines = await room.report(snapshot)
    assert skipping not in [line["event"] for line in lines]


async def test_without_any_pool_the_log_says_so_once(room: Room) -> None:
    """API-04, ACC-01: no error loop."""
    said = [
        [line["event"] for line in (await room.report(make_snapshot(make_pod(), pools=())))[1]]
        for _ in range(2)
    ]
    assert said[0].count("no dynamic nodepools found") == 1
    assert "no dynamic nodepools found" not in said[1]


async def test_pods_that_are_not_planned_at_all_are_no_errors(room: Room) -> None:
    """POD-03: a faulty pod is left out; POD-08: resource claims; SCH-111: the event FailedScheduling."""
    pods = (
        make_pod("odd", faults=("spec.x: wrong",)),
        make_pod("gpu", claims_devices=True),
        make_pod("huge", cpu="10000"),
    )
    events, lines = await room.report(make_snapshot(*pods, pools=(make_pool(),)))
    assert [name for name, reason, _, _ in events if reason == "FailedScheduling"] == [
        "gpu", "huge", "odd",
    ]  # fmt: skip
    assert {(line["pod"], line["log_level"], line["event"]) for line in lines} == {
        ("default/odd", "debug", "ignoring pod"),
        ("default/gpu", "info", "ignoring pod, DRA is not supported"),
        ("default/huge", "error", "could not schedule pod"),
    }


async def test_every_pod_is_told_in_the_end_and_logged_once(room: Room) -> None:
    """SCH-111: each plan reports some that were not reported yet; a new reason is reported again."""
    number = MOST_POD_EVENTS + 50
    pods = make_pods(number, cpu="500")
    reported, logged = set(), 0
    for _ in range(3):
        events, lines = await room.report(make_snapshot(*pods))
        assert len(events) <= MOST_POD_EVENTS
        reported |= {name for name, *_ in events}
        logged += sum(line["event"] == "could not schedule pod" for line in lines)
    assert (len(reported), logged) == (number, number)
    other = make_snapshot(*pods[:1], pools=(make_pool("other"),))
    _, lines = await room.report(other)
    assert [line["event"] for line in lines if line["log_level"] == "error"] == [
        "could not schedule pod"
    ]


async def test_what_is_held_back_is_known_until_the_next_round(room: Room) -> None:
    """``explain pod`` says it in place of "the next round places it"."""
    snapshot = cluster("v1", pods=(make_pod("web"),))
    hold = Hold(snapshot.pools[0].key, snapshot.pods[0].uid, 3, 20.0)
    await room.reporter.held_back([hold], snapshot)
    known = room.reporter.obstacles.of_workload(snapshot.pods[0].uid)
    assert [*known] == [snapshot.pools[0].key]
    assert "3 time(s) in a row new nodes took no pod" in known[snapshot.pools[0].key]
    assert room.reporter.obstacles.of_workload("another") == {}
    await room.reporter.held_back([], snapshot)
    assert room.reporter.obstacles.of_workload(snapshot.pods[0].uid) == {}
