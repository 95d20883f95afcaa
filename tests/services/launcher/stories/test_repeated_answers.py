"""The call of a launch is repeated, because its answer was lost (F1, F19, F20)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from services.launcher.launch.saga import ENDED_LISTED_SECONDS
from shared.cloud.ec2.records import ALL_LISTED_SECONDS
from shared.kube.client import Kube
from shared.redis.bus import RetryLater
from tests.services.conftest import Control
from tests.services.launcher.conftest import Launcher
from tests.services.launcher.stories.batches import (
    calls,
    launch_all,
    let_records_age,
    lose_the_answer,
    owners,
    records,
    waiting_machines,
)
from tests.support.clock.fake import FakeClock

Start = Callable[..., Launcher]


@pytest.fixture
async def uids(kube: Kube) -> dict[str, str]:
    """Three machines that wait; uid by name."""
    return await waiting_machines(kube)


@pytest.mark.parametrize("by", [3600.0, -3600.0], ids=["ahead", "behind"])
async def test_a_launcher_whose_clock_is_wrong_sends_a_young_record_again(
    start: Start, kube: Kube, control: Control, clock: FakeClock, uids: dict[str, str],
    monkeypatch: pytest.MonkeyPatch, by: float,
) -> None:  # fmt: skip
    """F1: the token finds the same instances, while EC2's lists may not show them yet."""
    if by < 0:  # the one that wrote the record, or the one that reads it
        clock.wall += by
    await lose_the_answer(start(), monkeypatch)
    clock.wall += abs(by)
    sent = len(calls(control))
    assert await launch_all(start(), ["b"]) == [None]
    assert len(calls(control)) == sent + 1
    assert len(control.alive()) == 3


@pytest.mark.slow
async def test_a_repeated_answer_names_an_instance_that_has_ended(
    start: Start, kube: Kube, control: Control, uids: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """F19, F20: a person ended it before the launcher heard of it. The others get theirs, its machine a new one."""
    await lose_the_answer(start(), monkeypatch)
    first, *others = sorted(control.alive())
    launcher = start()
    await launcher.launch.saga.ports.cloud.ec2.terminate([first])
    (ended, *ends) = await launch_all(launcher)
    assert isinstance(ended, RetryLater)
    assert ends == [None] * 2
    assert sorted((await owners(kube)).values()) == others
    assert await records(kube) == []
    assert await launch_all(launcher, ["a"]) == [None]
    assert sorted((await owners(kube)).values()) == sorted(control.alive())


@pytest.mark.slow
async def test_a_repeated_answer_names_an_instance_that_ec2_no_longer_lists(
    start: Start, kube: Kube, clock: FakeClock, uids: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """F20: what two lists two minutes apart do not show has ended; until then its machine waits."""
    await lose_the_answer(start(), monkeypatch)
    await let_records_age(kube, ENDED_LISTED_SECONDS + 1)
    launcher = start()
    ec2 = launcher.launch.saga.ports.cloud.ec2
    listed = ec2.instances

    async def without_the_first(**asked: Any) -> Any:
        found = await listed(**asked)
        return sorted(found, key=lambda one: one.id)[1:]

    monkeypatch.setattr(ec2, "instances", without_the_first)
    for wait in (ALL_LISTED_SECONDS - 1, 1):
        assert [type(one) for one in await launch_all(launcher)] == [
            RetryLater,
            type(None),
            type(None),
        ]
        assert sorted(await owners(kube)) == ["b", "c"]
        assert len(await records(kube)) == 1
        clock.advance(wait)
    assert isinstance((await launch_all(launcher, ["a"]))[0], RetryLater)
    assert await records(kube) == []


async def test_a_repeated_answer_counts_while_ec2_lists_nothing_yet(
    start: Start, kube: Kube, control: Control, uids: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """F1, F20: seconds after the first call nothing can have ended and be gone from EC2's list."""
    await lose_the_answer(start(), monkeypatch)
    launcher = start()

    async def nothing(**_: Any) -> list[Any]:
        return []

    monkeypatch.setattr(launcher.launch.saga.ports.cloud.ec2, "instances", nothing)
    assert await launch_all(launcher) == [None] * 3
    assert sorted((await owners(kube)).values()) == sorted(control.alive())
