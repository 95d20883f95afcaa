"""What nodes tell of their memory (IT-12, LCH-90)."""

from __future__ import annotations

from typing import Any

import pytest

from services.launcher.catalogue import learned_memory as module
from services.launcher.catalogue.learned_memory import (
    KEEP_LEARNED_SECONDS,
    Learned,
    MemorySizes,
    learned,
)
from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.domain.nodes import Node
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.redis.bus import Bus
from shared.redis.bus.connection import call
from shared.redis.mirror.catalogue.learned_ram import LearnedMemory
from tests.support.clock.fake import FakeClock

GIB = 1024**3
SEEN = 7_900_000_000


def machine(image: str = "ami-1", **changes: Any) -> Machine:
    """An m5.large whose memory is estimated at 7.4 GiB."""
    fields: dict[str, Any] = {
        "labels": {
            keys.INSTANCE_TYPE: "m5.large",
            "karpenter.k8s.aws/instance-memory": "8192",
        },
        "capacity": {"memory": 7577 * 1024**2},
        "image_id": image,
    }
    return Machine(uid="u", name="m", **{**fields, **changes})


def node(memory: int = SEEN) -> Node:
    return Node(uid="n", name="n", capacity={"memory": memory})


@pytest.mark.parametrize("generation", [V1ALPHA5, V1])
def test_a_node_tells_the_memory_of_its_type_and_image(generation: str) -> None:
    """IT-12: memory as nodes report it."""
    found = learned(machine(generation_api=generation), node())
    assert found == Learned("m5.large", "ami-1", SEEN)


@pytest.mark.parametrize(
    ("changes", "memory"),
    [
        ({}, 0),
        ({}, 1 * GIB),
        ({}, 8 * GIB + 1),
        ({"labels": {keys.INSTANCE_TYPE: "m5.large"}}, 10 * GIB),
        ({"image_id": ""}, SEEN),
        ({"labels": {}}, SEEN),
        ({"capacity": {}}, SEEN),
    ],
)
def test_what_cannot_be_true_or_has_no_name_teaches_nothing(
    changes: dict[str, Any], memory: int
) -> None:
    """A broken kubelet must not make its type useless for two months."""
    assert learned(machine(**changes), node(memory)) is None


@pytest.fixture
def discovered(bus: Bus, clock: FakeClock) -> MemorySizes:
    return MemorySizes(LearnedMemory(bus.redis, bus.prefix), clock)


async def test_of_all_nodes_the_least_counts(discovered: MemorySizes) -> None:
    """IT-12: lowest seen kept, by image."""
    for memory in (SEEN, SEEN - 5, SEEN + 5):
        await discovered.learn(machine(), node(memory))
    await discovered.learn(machine("ami-2"), node(SEEN + 9))
    assert await discovered.by_type() == {"m5.large": {"ami-1": SEEN - 5, "ami-2": SEEN + 9}}


async def test_another_launcher_knows_what_the_last_one_learned(
    discovered: MemorySizes, bus: Bus, clock: FakeClock
) -> None:
    """IT-12: it survives a restart, and who knows less does not raise it."""
    await discovered.learn(machine(), node(SEEN))
    other = MemorySizes(LearnedMemory(bus.redis, bus.prefix), clock)
    await other.learn(machine(), node(SEEN + 9))
    assert await other.by_type() == {"m5.large": {"ami-1": SEEN}}


async def test_what_redis_lost_is_written_again(
    discovered: MemorySizes, bus: Bus, clock: FakeClock
) -> None:
    await discovered.learn(machine(), node())
    await call(bus.redis, "lose everything", "FLUSHDB")
    assert await discovered.by_type() == {"m5.large": {"ami-1": SEEN}}
    other = MemorySizes(LearnedMemory(bus.redis, bus.prefix), clock)
    assert await other.by_type() == {"m5.large": {"ami-1": SEEN}}


async def test_it_is_forgotten_sixty_days_after_the_last_node(
    discovered: MemorySizes, bus: Bus, clock: FakeClock
) -> None:
    """LCH-90: how long answers are kept."""
    await discovered.learn(machine(), node())
    clock.advance(KEEP_LEARNED_SECONDS / 2)
    await discovered.learn(machine(), node(SEEN + 9))
    clock.advance(KEEP_LEARNED_SECONDS / 2 + 1)
    assert await discovered.by_type() == {"m5.large": {"ami-1": SEEN}}
    clock.advance(KEEP_LEARNED_SECONDS / 2)
    assert await discovered.by_type() == {}
    other = MemorySizes(LearnedMemory(bus.redis, bus.prefix), clock)
    assert await other.by_type() == {}


async def test_there_is_room_for_so_many_and_the_oldest_go(
    discovered: MemorySizes, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_LEARNED", 2)
    for number in range(4):
        await discovered.learn(machine(f"ami-{number}"), node())
        clock.advance(1)
    assert await discovered.by_type() == {"m5.large": {"ami-2": SEEN, "ami-3": SEEN}}
    assert await discovered.by_type() == {"m5.large": {"ami-2": SEEN, "ami-3": SEEN}}
