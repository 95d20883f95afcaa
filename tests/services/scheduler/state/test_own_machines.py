"""What the scheduler wrote counts until the mirror has reached it, however long that takes (BAT-05, design 3.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from services.scheduler.disruption.command_record import CommandRecord, Written, is_shown
from services.scheduler.evidence.need import MANY_MACHINES, Need, spread, still_needs
from services.scheduler.state.view import View
from shared.api.machines import parse_machine
from shared.api.provisioners import parse_provisioner
from shared.clock import Clock
from shared.kube.client import Kube
from shared.kube.machines import Stored
from shared.kube.resources import MACHINES, PODS
from shared.mirror import MirrorReader, Position
from tests.services.conftest import create_machine, create_pool
from tests.services.scheduler.conftest import SOUND, Scheduler
from tests.support.builders import make_bound_pod, make_pod, make_pods
from tests.support.fake_clock import FakeClock
from tests.support.waiting import wait_until

TYPES = {"key": "node.kubernetes.io/instance-type", "operator": "Exists"}


class Later:
    """A clock that is ahead of another one."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self._seconds = clock, seconds

    def now(self) -> float:
        return self._clock.now() + self._seconds

    def monotonic(self) -> float:
        return self._clock.monotonic() + self._seconds


async def pool_of(kube: Kube, **spec: Any) -> Any:
    raw = await create_pool(kube, **{"requirements": [TYPES], **spec})
    return parse_provisioner(raw).require("default")


async def machines(kube: Kube) -> list[dict[str, Any]]:
    return (await kube.list(MACHINES)).items


async def told(scheduler: Scheduler, positions: Mapping[str, Position]) -> None:
    """A heartbeat that the scheduler has heard."""
    await scheduler.writer.heartbeat(positions)
    names, reader = sorted(positions), scheduler.reader
    expected = [positions[name].version for name in names]

    def heard() -> bool:
        found = [reader.position(name, 0.0) for name in names]
        return [one and one.version for one in found] == expected

    await wait_until(heard, "the heartbeat")


def at(version: str, **changes: Any) -> dict[str, Position]:
    """Sound watches, that of machines at this version."""
    position = msgspec.structs.replace(SOUND["machines"], version=version, **changes)
    return {**SOUND, "machines": position}


async def test_a_mirror_that_stands_still_does_not_make_the_scheduler_buy_twice(
    scheduler: Scheduler, kube: Kube
) -> None:
    """A minute after the machine was written the mirror still lacks it, and a new pod comes: it fits on the first."""
    await scheduler.show(nodepools=[await pool_of(kube)], pods=[make_pod("web", cpu="1")])
    await scheduler.plan("a")
    planner, cluster = scheduler.planner, scheduler.cluster
    planner.clock = cluster.clock = Later(planner.clock, 45.0)
    await scheduler.writer.heartbeat(SOUND)
    await scheduler.show(pods=[make_pod("small", cpu="100m")])
    await scheduler.plan("b")
    (machine,) = await machines(kube)
    assert planner.last_plan is not None
    assert set(planner.last_plan.existing[machine["metadata"]["name"]]) == {
        "uid-web",
        "uid-small",
    }


async def test_a_machine_that_the_mirror_went_past_is_gone(
    scheduler: Scheduler, kube: Kube
) -> None:
    """It was deleted before the mirror ever showed it: its pods are planned for anew."""
    await scheduler.show(nodepools=[await pool_of(kube)], pods=[make_pod("web")])
    await scheduler.plan("a")
    (raw,) = await machines(kube)
    version = int(raw["metadata"]["resourceVersion"])
    await kube.patch(MACHINES, raw["metadata"]["name"], {"metadata": {"finalizers": None}})
    await kube.delete(MACHINES, raw["metadata"]["name"])
    await told(scheduler, at(str(version - 1)))
    assert len(scheduler.view.machines()) == 1
    await told(scheduler, at(str(version)))
    assert scheduler.view.machines() == []


async def test_a_new_leader_counts_what_the_last_one_wrote(
    scheduler: Scheduler, kube: Kube
) -> None:
    """Its machine is on the API server, the mirror does not show it yet."""
    await scheduler.show(nodepools=[await pool_of(kube)], pods=[make_pod("web")])
    await scheduler.plan("a")
    scheduler.view.created.clear()  # as in another process
    await scheduler.show(pods=[make_pod("small")])
    await scheduler.plan("b")
    assert len(await machines(kube)) == 1


@pytest.mark.parametrize(
    ("position", "text"),
    [
        (Position("1", sound=False, seconds=7.0), "the watch of machines has been broken for 7 s"),
        (Position("1", sound=True, seconds=500.0), "the watch of machines has told nothing"),
    ],
    ids=["broken", "silent"],
)
async def test_nothing_is_bought_while_a_watch_is_not_sound(
    scheduler: Scheduler, kube: Kube, position: Position, text: str
) -> None:
    """The text names the kind and the seconds; readiness says the same."""
    await scheduler.show(nodepools=[await pool_of(kube)], pods=[make_pod("web")])
    await told(scheduler, {**SOUND, "machines": position})
    await scheduler.plan_refused()
    assert scheduler.planner.problem.startswith(text)
    assert scheduler.cluster.not_synced(patience=5.0).startswith(text)
    assert await machines(kube) == []
    await told(scheduler, at("2"))
    await scheduler.plan("b")
    assert len(await machines(kube)) == 1


@pytest.mark.parametrize("how", ["never", "another", "bound", "gone"])
async def test_nothing_is_bought_for_ghosts(scheduler: Scheduler, kube: Kube, how: str) -> None:
    """The picture shows a pod that waits; the API server knows better."""
    ghost, pool = make_pod("ghost"), await pool_of(kube)
    stored = {"another": make_pod("ghost", uid="uid-new"), "bound": make_bound_pod("ghost", "n")}
    if how == "gone":
        await scheduler.show(pods=[ghost])
        await kube.delete(PODS, "ghost", "default", grace_seconds=0)
    if how in stored:
        await scheduler.show(pods=[stored[how]])
    await scheduler.show_only(nodepools=[pool], pods=[ghost])
    await scheduler.plan()
    assert await machines(kube) == []
    assert not scheduler.planner.nominated()


async def test_one_real_pod_is_reason_enough(scheduler: Scheduler, kube: Kube) -> None:
    """The others of its machine may be gone."""
    pods = make_pods(4)
    await scheduler.show(pods=pods[3:])
    await scheduler.show_only(nodepools=[await pool_of(kube)], pods=pods)
    await scheduler.plan()
    assert len(await machines(kube)) == 1


async def test_for_many_machines_the_waiting_pods_are_listed_once(
    scheduler: Scheduler, kube: Kube
) -> None:
    """Bound pods and leaving ones are not among them; pods of leaving nodes are still read one by one."""
    bound, leaves = make_bound_pod("bound", "n"), make_pod("leaves")
    await scheduler.show(pods=[make_pod("waits"), bound, leaves])
    await kube.patch(PODS, "leaves", {"metadata": {"finalizers": ["a/b"]}}, "default")
    await kube.delete(PODS, "leaves", "default", grace_seconds=0)
    need = Need(kube)
    assert await need.listed(MANY_MACHINES - 1) == frozenset()
    listed = await need.listed(MANY_MACHINES)
    assert listed == {"uid-waits"}
    assert await need.is_proven(["uid-x", "uid-waits"], {}, listed)
    assert await need.is_proven([bound.uid], {bound.uid: bound}, listed)
    assert not await need.is_proven([leaves.uid], {leaves.uid: leaves}, listed)


def test_a_pod_that_leaves_for_good_needs_nothing() -> None:
    """One that was planned for while it left (a StatefulSet's) still does."""
    pod, leaving = make_pod("a"), make_pod("a", terminating=True)
    assert still_needs(pod, pod)
    assert not still_needs(pod, leaving)
    assert still_needs(leaving, leaving)
    assert not still_needs(pod, make_pod("a", phase="Succeeded"))
    assert not still_needs(pod, make_pod("a", uid="other"))
    assert still_needs(make_bound_pod("b", "n"), make_bound_pod("b", "n"))
    assert not still_needs(make_bound_pod("b", "n"), make_bound_pod("b", "m"))


def test_few_are_asked_and_from_all_over() -> None:
    assert spread(["a", "b"], 5) == ["a", "b"]
    assert spread([str(n) for n in range(10)], 5) == ["0", "2", "4", "6", "8"]


async def test_a_namesake_that_the_mirror_shows_is_not_ours(kube: Kube) -> None:
    """Another machine had the name before: ours takes its place until the mirror shows it."""
    reader = MirrorReader("redis://nowhere.invalid", "t", clock=FakeClock())
    view, raw = View(reader), await create_machine(kube)
    ours = parse_machine(raw)
    view.assume(Stored(ours, "9"))
    before = msgspec.structs.replace(ours, uid="before")
    for shown, expected in (([before], [ours]), ([ours], [ours]), ([], [])):
        reader.kinds["machines"] = {one.key: msgspec.json.encode(one) for one in shown}
        assert [one.uid for one in view.machines()] == [one.uid for one in expected]


@pytest.mark.parametrize(
    ("over", "record", "alive", "shown"),
    [
        (False, None, {"Machine/a"}, False),
        (False, None, set(), True),
        (False, False, {"Machine/a"}, False),
        (False, True, {"Machine/a"}, True),
        (True, True, {"Machine/a"}, False),
        (True, None, {"Machine/a"}, True),
    ],
)
def test_our_last_word_on_a_command_counts_until_it_is_shown(
    over: bool, record: bool | None, alive: set[str], shown: bool
) -> None:
    """``record``: whether the one that the mirror has says that all replacements exist; None: it has none."""
    ours = CommandRecord("id", "drift", "Drifted", ("Machine/a",), created=True)
    theirs = None if record is None else msgspec.structs.replace(ours, created=record)
    assert is_shown(Written(ours, over), theirs, alive) is shown


async def test_a_deleted_machine_is_busy_until_the_mirror_shows_it(
    scheduler: Scheduler, kube: Kube
) -> None:
    """A budget must not be spent twice because the mirror stands still."""
    raw = await create_machine(kube)
    machine, commands = parse_machine(raw), scheduler.commands
    await scheduler.show(machines=[machine])
    assert await scheduler.parts.actions.delete(machine)
    commands.clock = Later(commands.clock, 1000.0)
    assert commands.busy() == {machine.uid}
    await scheduler.show(machines=[msgspec.structs.replace(machine, terminating=True)])
    assert commands.busy() == set()
