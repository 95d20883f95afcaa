"""Capacity reservations of node classes (EC-05, IT-07, LCH-84, LCH-90)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from services.launcher.catalogue.reservations import Reservations
from services.launcher.launch.offerings import choose
from services.launcher.node_class.capacity_reservations import (
    BLOCK_END_SECONDS,
    COUNT_FRESH_SECONDS,
    CapacityReservations,
    is_ending,
    offered,
    selects,
)
from services.launcher.node_class.controller import NodeClasses
from shared.api.v1.ec2_node_classes import parse_ec2_node_class
from shared.cloud.client.session import Cloud
from shared.cloud.ec2.records import CapacityReservation
from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.instance_types.reservations import (
    CAPACITY_BLOCK,
    ID_LABEL,
    INTERRUPTIBLE_LABEL,
    TYPE_LABEL,
    Reservation,
    with_reserved,
)
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import SelectorTerm
from shared.errors import InsufficientCapacity, Unavailable
from shared.kube.client import Kube
from shared.kube.resources import EC2_NODE_CLASSES, NODE_CLAIMS
from shared.redis.mirror.catalogue.offerings import CatalogueStore, UnavailableOfferings
from shared.redis.mirror.catalogue.reservations import ReservationStore, ReservedCatalogues
from tests.services.conftest import Control, create_node_claim, create_node_class
from tests.services.launcher.conftest import Launcher, with_settings
from tests.services.launcher.lifecycle_world import World
from tests.support.clock.fake import FakeClock
from tests.support.planning.builders import (
    ZONES,
    make_catalogue,
    make_machine,
    make_node_class,
    make_type,
)

ONE = CapacityReservation(
    "cr-1", "123456789012", "m5.large", ZONES[0], "targeted", "default", 2, None, {"team": "a"}
)


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (SelectorTerm(id="cr-1"), True),
        (SelectorTerm(id="cr-2"), False),
        (SelectorTerm(owner="123456789012"), True),
        (SelectorTerm(owner="210987654321"), False),
        (SelectorTerm(match_criteria="open"), False),
        (SelectorTerm(tags={"team": "a"}), True),
        (SelectorTerm(tags={"team": "*"}), True),
        (SelectorTerm(tags={"team": "[a]"}), False),
        (SelectorTerm(tags={"other": "*"}), False),
        (SelectorTerm(tags={"team": "a"}, match_criteria="targeted"), True),
        (SelectorTerm(tags={"team": "a"}, match_criteria="open"), False),
        (SelectorTerm(), False),
    ],
)
def test_every_field_of_a_term_must_match(term: SelectorTerm, expected: bool) -> None:
    """EC-05. A term that says nothing selects nothing."""
    assert selects(term, ONE) == expected


def test_a_capacity_block_is_not_offered_in_its_last_forty_minutes() -> None:
    """LCH-84: its machines would have to go at once."""
    block = replace(ONE, kind=CAPACITY_BLOCK, ends_at=10_000.0)
    ends = 10_000.0 - BLOCK_END_SECONDS
    assert [is_ending(block, now) for now in (ends - 1, ends, 20_000.0)] == [False, True, True]
    assert not is_ending(replace(ONE, ends_at=10_000.0), ends)
    found = {"EC2NodeClass/b": [block, ONE], "EC2NodeClass/a": [ONE]}
    (kept,) = offered({k: v for k, v in found.items() if v}, counted_at=5.0, now=ends)[:1]
    assert (kept.id, kept.left, kept.counted_at) == ("cr-1", 2, 5.0)
    assert kept.node_classes == ("EC2NodeClass/a", "EC2NodeClass/b")


KINDS = (make_type("m5.xlarge", 4, 16, 192_000), make_type("m5.large"))
BOTH = (
    Reservation("cr-1", "m5.xlarge", ZONES[0], left=1),
    Reservation("cr-2", "m5.large", ZONES[1], left=1),
    Reservation("cr-3", "m5.large", ZONES[2], CAPACITY_BLOCK, left=1),
)


def chosen(*asked: Expression) -> list[tuple[str, list[str]]]:
    machine = make_machine("m", generation_api=V1, requirements=asked)
    catalogue = with_reserved(make_catalogue(KINDS), BOTH)
    found = choose(machine, catalogue, ZONES, frozenset())
    return [(c.type.name, [o.reservation_id for o in c.offerings]) for c in found.choices]


def test_reserved_offerings_come_first_in_the_order_of_their_on_demand_prices() -> None:
    """IT-07, LCH-45: ordinary reservations before blocks."""
    assert chosen() == [("m5.large", ["cr-2"]), ("m5.xlarge", ["cr-1"])]
    assert chosen(Expression(ID_LABEL, "In", ("cr-1",))) == [("m5.xlarge", ["cr-1"])]
    assert chosen(Expression(TYPE_LABEL, "In", (CAPACITY_BLOCK,))) == [("m5.large", ["cr-3"])]
    on_demand = chosen(Expression(keys.CAPACITY_TYPE, "In", (keys.ON_DEMAND,)))
    assert on_demand[0] == ("m5.large", ["", "", ""])
    with pytest.raises(InsufficientCapacity):
        chosen(
            Expression(keys.CAPACITY_TYPE, "In", (keys.RESERVED,)),
            Expression(ID_LABEL, "In", ("cr-9",)),
        )


async def test_ec2_is_asked_once_a_minute_and_may_be_silent(
    cloud: Cloud, control: Control, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LCH-90: which there are is known for a day, what is left of them is not."""
    control.post("reservations", instanceType="m5.large", zone=ZONES[0], count=2)
    known = CapacityReservations(cloud, clock)
    node_class = make_node_class(reservation_terms=(SelectorTerm(match_criteria="targeted"),))
    (found,) = await known.find(node_class)
    assert (found.instance_type, found.zone, found.left) == ("m5.large", ZONES[0], 2)

    async def silent() -> Any:
        raise Unavailable("down")

    monkeypatch.setattr(cloud.ec2, "capacity_reservations", silent)
    assert await known.find(node_class) == (found,)
    assert known.is_counted
    clock.advance(3 * COUNT_FRESH_SECONDS)
    assert await known.find(node_class) == (found,)
    assert not known.is_counted
    clock.advance(25 * 3600)
    with pytest.raises(Unavailable):
        await known.find(node_class)
    assert await known.find(make_node_class()) == ()
    assert await CapacityReservations(cloud, clock, enabled=False).find(node_class) == ()


class Reserving:
    """A class that selects the reservations tagged ``team: a``, and what tells the scheduler of them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.store = ReservationStore(world.bus.redis, world.bus.prefix)
        ports = with_settings(world.ports, disable_dry_run=True)
        self.classes = NodeClasses(ports, self.store)
        self.updates = Reservations(ports, world.machines, lambda: (), self.classes, world.writer)

    async def published(self) -> tuple[Reservation, ...]:
        """A minute later."""
        self.world.clock.advance(COUNT_FRESH_SECONDS + 1)
        await self.classes.refresh_all()
        await self.updates.update()
        return await self.known() or ()

    async def known(self) -> tuple[Reservation, ...] | None:
        """What the scheduler finds for the class as it is stored now; None: nobody has published."""
        raw = await self.world.kube.get(EC2_NODE_CLASSES, "default")
        node_class = parse_ec2_node_class(raw).require("default")
        return (await self.store.get([node_class])).get(node_class.key)


@pytest.fixture
async def reserving(world: World) -> Reserving:
    terms = [{"tags": {"team": "a"}}]
    await create_node_class(world.kube, capacityReservationSelectorTerms=terms)
    return Reserving(world)


async def test_a_claim_is_launched_into_its_reservation(
    reserving: Reserving, kube: Kube, control: Control, start: Callable[..., Launcher], world: World
) -> None:
    """EC-15, EC-16, LCH-24, LCH-59: from the class's terms to the labels of the machine; a full one is remembered."""
    control.post("reservations", instanceType="m5.large", zone=ZONES[1], count=1, tags={"team": "a"})  # fmt: skip
    control.post("reservations", instanceType="m5.large", zone=ZONES[0], count=9, tags={"team": "b"})  # fmt: skip
    (known,) = await reserving.published()
    assert (known.instance_type, known.zone, known.left) == ("m5.large", ZONES[1], 1)
    assert known.node_classes == ("EC2NodeClass/default",)
    status = (await kube.get(EC2_NODE_CLASSES, "default"))["status"]
    assert [one["id"] for one in status["capacityReservations"]] == [known.id]
    ready = {c["type"]: c["status"] for c in status["conditions"]}
    assert ready["CapacityReservationsReady"] == ready["Ready"] == "True"
    redis, prefix = world.bus.redis, world.bus.prefix
    raw = await kube.get(EC2_NODE_CLASSES, "default")
    source = ReservedCatalogues(
        CatalogueStore(redis, prefix),
        reserving.store,
        lambda: [parse_ec2_node_class(raw).require("default")],
    )
    catalogue = await source.get()
    assert catalogue is not None
    offers = [o for kind in catalogue.types for o in kind.offerings if o.reservation_id]
    assert [(o.reservation_id, o.price_micro_usd_per_hour, o.order) for o in offers] == [
        (known.id, 0, 96_000)
    ]

    pinned = [
        {"key": keys.CAPACITY_TYPE, "operator": "In", "values": [keys.RESERVED]},
        {"key": ID_LABEL, "operator": "In", "values": [known.id]},
    ]
    launcher = start()
    await create_node_claim(kube, "a", requirements=pinned)
    await create_node_claim(kube, "b", requirements=pinned)
    await launcher.launch.launch("NodeClaim/a")
    machine = await world.machines.get("NodeClaim/a")
    assert (machine.capacity_type, machine.zone) == (keys.RESERVED, ZONES[1])
    assert machine.labels[ID_LABEL] == known.id
    assert (machine.labels[TYPE_LABEL], machine.labels[INTERRUPTIBLE_LABEL]) == ("default", "false")
    assert machine.annotations[keys.PRICE_ANNOTATION] == "0"
    (instance,) = await world.cloud.ec2.instances(ids=[machine.provider_id.rpartition("/")[2]])
    assert instance.capacity_reservation_id == known.id
    await launcher.launch.launch("NodeClaim/b")
    full = await UnavailableOfferings(world.bus.redis, world.bus.prefix).current()
    assert full == {(keys.RESERVED, "m5.large", ZONES[1])}
    assert (await kube.get(NODE_CLAIMS, "b"))["metadata"]["deletionTimestamp"]
    assert [one.left for one in await reserving.published()] == [0]


async def test_the_scheduler_is_told_before_the_class_is_ready(
    reserving: Reserving, kube: Kube, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EC-15, IT-04: whoever reads Ready finds the reservations of that very version; a class whose
    reservations cannot be published is not ready."""
    control.post("reservations", instanceType="m5.large", zone=ZONES[1], count=1, tags={"team": "a"})  # fmt: skip

    async def is_ready() -> bool:
        raw = await kube.get(EC2_NODE_CLASSES, "default")
        return parse_ec2_node_class(raw).require("default").ready

    async def deaf(*_: object) -> None:
        raise Unavailable("Redis is away")

    with monkeypatch.context() as patch:
        patch.setattr(reserving.store, "put", deaf)
        with pytest.raises(Unavailable):
            await reserving.classes.refresh_one("EC2NodeClass/default")
        assert not await is_ready()
    await reserving.classes.refresh_one("EC2NodeClass/default")
    assert await is_ready()
    assert [one.left for one in await reserving.known() or ()] == [1]
    edit = {"spec": {"capacityReservationSelectorTerms": [{"tags": {"team": "b"}}]}}
    await kube.patch(EC2_NODE_CLASSES, "default", edit)
    assert await reserving.known() is None
    assert not await is_ready(), "what is said of the old version says nothing of this one"
    await reserving.classes.refresh_one("EC2NodeClass/default")
    assert (await is_ready(), await reserving.known()) == (True, ())


@pytest.mark.parametrize(
    ("kind", "target", "options"),
    [
        ({"kind": CAPACITY_BLOCK}, "capacity-block", None),
        (
            {"interruptible": True},
            "reserved-capacity",
            {"ReservationTypes": ["interruptible-capacity-reservation"]},
        ),
    ],
)
async def test_other_kinds_of_reservation_are_asked_for_in_ec2_s_words(
    reserving: Reserving, kube: Kube, control: Control, start: Callable[..., Launcher],
    world: World, kind: dict[str, Any], target: str, options: dict[str, Any] | None,
) -> None:  # fmt: skip
    """LCH-24, LCH-50: EC2 refuses on-demand options with them, and a template of another market."""
    place = {"instanceType": "m5.large", "zone": ZONES[1], "count": 1}
    control.post("reservations", **place, **kind, tags={"team": "a"})
    (known,) = await reserving.published()
    pinned = [{"key": ID_LABEL, "operator": "In", "values": [known.id]}]
    await create_node_claim(kube, "a", requirements=pinned)
    await start().launch.launch("NodeClaim/a")
    machine = await world.machines.get("NodeClaim/a")
    assert machine.capacity_type == keys.RESERVED
    assert machine.labels[INTERRUPTIBLE_LABEL] == str("interruptible" in kind).lower()
    (call,) = control.get("calls?action=CreateFleet")["calls"]
    asked = call["parameters"]
    assert asked["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == target
    assert asked.get("ReservedCapacityOptions") == options
    assert not {"OnDemandOptions", "SpotOptions"} & asked.keys()


async def test_the_machines_of_a_block_that_ends_go(
    reserving: Reserving, kube: Kube, control: Control, world: World
) -> None:
    """LCH-84: forty minutes before its end; no others."""
    seconds = BLOCK_END_SECONDS + 600
    control.post(
        "reservations", instanceType="m5.large", zone=ZONES[0], count=2, kind=CAPACITY_BLOCK,
        endsInSeconds=seconds, tags={"team": "a"},
    )  # fmt: skip
    (block,) = await reserving.published()
    machines = [await world.launched(name, V1, "aws:///us-west-2a/i-1") for name in ("a", "b")]
    await kube.patch(NODE_CLAIMS, "a", {"metadata": {"labels": {ID_LABEL: block.id}}})
    assert len(await reserving.published()) == 1
    assert not await world.is_leaving(machines[0])
    world.clock.advance(660)  # EC2's clock is not this one
    assert await reserving.published() == ()
    assert [await world.is_leaving(one) for one in machines] == [True, False]


async def test_without_terms_ec2_is_not_asked(world: World, kube: Kube, control: Control) -> None:
    """A right that most clusters do not give."""
    await create_node_class(kube)
    reserving = Reserving(world)
    control.post(
        "faults", action="DescribeCapacityReservations", code="UnauthorizedOperation", status=403
    )
    assert await reserving.published() == ()
    terms = {"spec": {"capacityReservationSelectorTerms": [{"id": "cr-1"}]}}
    await kube.patch(EC2_NODE_CLASSES, "default", terms)
    world.clock.advance(COUNT_FRESH_SECONDS + 1)
    await reserving.classes.refresh_all()
    status = (await kube.get(EC2_NODE_CLASSES, "default"))["status"]
    (condition,) = (c for c in status["conditions"] if c["type"] == "CapacityReservationsReady")
    assert (condition["status"], condition["reason"]) == ("False", "Unauthorized")
