"""One question to EC2 for all terminations, and what its answers prove (TRM-14, LCH-55, F20)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from services.terminator.instances import ABSENT, READ_SECONDS, UNKNOWN, Instances, InstanceView
from shared.errors import Unavailable
from tests.services.terminator.world import World

MISSING = "i-0123456789abcdef0"


@pytest.fixture
def questions(world: World, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The ids of every DescribeInstances; EC2 answers them all."""
    asked: list[list[str]] = []
    describe = world.cloud.ec2.instances

    async def counted(*, ids: Any) -> Any:
        asked.append(sorted(ids))
        return await describe(ids=ids)

    monkeypatch.setattr(world.cloud.ec2, "instances", counted)
    return asked


async def test_all_ask_together_every_five_seconds(
    world: World, questions: list[list[str]]
) -> None:
    """LCH-55: also those that began at different moments."""
    found = [one.rpartition("/")[2] for one in await world.instances(3)]
    instances = Instances(world.cloud.ec2, world.clock)
    for index in range(1, 4):
        await asyncio.gather(*(instances.read(one) for one in found[:index]))
        world.clock.advance(1)
    assert questions == [[one] for one in found], "a new one is not kept waiting"
    for _ in range(10):
        await asyncio.gather(*(instances.read(one) for one in found))
        world.clock.advance(1)
    assert questions[3:] == [sorted(found)] * 2
    instances.forget(found[0])
    world.clock.advance(READ_SECONDS)
    await instances.read(found[1])
    assert questions[5:] == [sorted(found[1:])]


async def test_after_an_order_ec2_is_asked_afresh(world: World, questions: list[list[str]]) -> None:
    (provider_id,) = await world.instances(1)
    instance_id = provider_id.rpartition("/")[2]
    instances = Instances(world.cloud.ec2, world.clock)
    assert (await instances.read(instance_id)).state in ("pending", "running")
    await instances.terminate(instance_id)
    assert (await instances.read(instance_id)).state in ("shutting-down", "terminated")
    assert len(questions) == 2


async def test_without_an_answer_the_last_word_stands(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F18: a drain goes on while EC2 is away, and nothing is taken for gone."""
    calls = 0

    async def away(*, ids: Any) -> Any:
        nonlocal calls
        calls += 1
        raise Unavailable("EC2 is away")

    monkeypatch.setattr(world.cloud.ec2, "instances", away)
    instances = Instances(world.cloud.ec2, world.clock)
    for _ in range(100):
        view = await instances.read(MISSING)
        assert (view.state, view.is_gone) == (UNKNOWN, False)
        world.clock.advance(1)
    assert calls == 20


def test_absence_is_proof_only_when_ec2_would_list_a_new_instance() -> None:
    """F20: it may need three minutes for that, and none of the looks between found it. Seed 1 of late-lists let go of a
    machine that was deleted eight seconds after its launch, while its instance ran."""
    view = InstanceView()
    for at in (0.0, 60.0, 180.0):
        view.update(None, at)
        assert (view.state, view.is_gone) == (ABSENT, False)
    view.update(None, 200.0)
    assert view.is_gone


async def test_an_instance_that_comes_back_was_never_gone(world: World) -> None:
    """F20: the list lagged."""
    (provider_id,) = await world.instances(1)
    (seen,) = await world.cloud.ec2.instances(ids=[provider_id.rpartition("/")[2]])
    view = InstanceView()
    view.update(None, 0.0)
    view.update(seen, 30.0)
    view.update(None, 201.0)
    assert not view.is_gone
    view.update(None, 401.0)
    assert view.is_gone
