"""Virtual time: what a program sees of the simulated event loop."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from random import Random
from typing import Any

import pytest

from simulation.loop import START_SECONDS, SimulatedLoop, Stuck, run
from simulation.network.connections import Network
from simulation.owner import CURRENT, FEWEST_LOOKED_AT, Owner


def new_loop(seed: int = 1) -> SimulatedLoop:
    return SimulatedLoop(Random(seed), Network(Random(seed)))


def test_a_sleep_of_a_day_takes_no_time() -> None:
    loop = new_loop()
    run(loop, asyncio.sleep(86_400.0))
    assert loop.time() == pytest.approx(START_SECONDS + 86_400.0, abs=0.01)


def test_timers_fire_in_the_order_of_their_times() -> None:
    async def work() -> list[int]:
        fired: list[int] = []
        for seconds in (3, 1, 2):
            asyncio.get_running_loop().call_later(seconds, fired.append, seconds)
        await asyncio.sleep(4)
        return fired

    assert run(new_loop(), work()) == [1, 2, 3]


def test_a_cancelled_timer_does_not_fire() -> None:
    async def work() -> list[int]:
        fired: list[int] = []
        asyncio.get_running_loop().call_later(1, fired.append, 1).cancel()
        await asyncio.sleep(2)
        return fired

    assert run(new_loop(), work()) == []


def test_a_program_that_waits_for_ever_is_found() -> None:
    with pytest.raises(Stuck):
        run(new_loop(), asyncio.Event().wait())


def test_the_result_of_an_executor_arrives_after_simulated_time() -> None:
    loop = new_loop()
    assert run(loop, asyncio.to_thread(sum, (1, 2))) == 3
    assert loop.time() > START_SECONDS


def test_the_error_of_an_executor_is_raised_where_its_result_is_awaited() -> None:
    with pytest.raises(ZeroDivisionError):
        run(new_loop(), asyncio.to_thread(divmod, 1, 0))


def test_a_timeout_cuts_a_wait_off() -> None:
    async def work() -> None:
        async with asyncio.timeout(5):
            await asyncio.sleep(10)

    with pytest.raises(TimeoutError):
        run(new_loop(), work())


def _interleaved(seed: int) -> list[str]:
    """The order in which two processes with three callbacks each run."""
    ran: list[str] = []

    async def work() -> None:
        loop = asyncio.get_running_loop()
        for name in ("a", "b"):
            context = copy_context()
            context.run(CURRENT.set, Owner(name))
            for number in range(3):
                loop.call_soon(ran.append, f"{name}{number}", context=context)
        await asyncio.sleep(1)

    run(new_loop(seed), work())
    return ran


def test_the_seed_decides_which_process_runs_next() -> None:
    assert len({tuple(_interleaved(seed)) for seed in range(30)}) > 5


def test_one_seed_gives_one_order() -> None:
    assert _interleaved(7) == _interleaved(7)


def test_callbacks_of_one_process_run_in_the_order_of_their_scheduling() -> None:
    for seed in range(30):
        ran = _interleaved(seed)
        assert [one for one in ran if one.startswith("a")] == ["a0", "a1", "a2"]


def _with_victim(act: Any) -> tuple[list[str], Owner]:
    """A process that appends "tick" each second and "cleaned" in a finally block; ``act(loop, owner)`` after 2.5 s."""
    log: list[str] = []
    victim = Owner("victim")

    async def tick() -> None:
        try:
            while True:
                await asyncio.sleep(1)
                log.append("tick")
        finally:
            log.append("cleaned")

    async def work() -> None:
        loop = asyncio.get_running_loop()
        context = copy_context()
        context.run(CURRENT.set, victim)
        ticking = loop.create_task(tick(), context=context)
        await asyncio.sleep(2.5)
        act(loop, victim)
        await asyncio.sleep(2.0)
        ticking.cancel()

    run(new_loop(), work())
    return log, victim


def test_a_killed_process_runs_nothing_more_and_cleans_nothing_up() -> None:
    log, _ = _with_victim(lambda loop, owner: loop.kill(owner))
    assert log == ["tick", "tick"]


def test_a_killed_process_keeps_its_tasks_so_that_collection_runs_no_finally_block() -> None:
    _, victim = _with_victim(lambda loop, owner: loop.kill(owner))
    assert len(victim.kept) == 1


def test_a_paused_process_runs_nothing_until_it_continues() -> None:
    log, _ = _with_victim(lambda loop, owner: loop.pause(owner))
    assert log == ["tick", "tick"]


def test_a_process_that_continues_runs_what_became_due_meanwhile() -> None:
    def act(loop: SimulatedLoop, owner: Owner) -> None:
        loop.pause(owner)
        loop.call_later(1.5, loop.resume, owner)

    log, _ = _with_victim(act)
    assert log.count("tick") == 3


def test_a_budget_of_callbacks_ends_with_a_call() -> None:
    ended: list[int] = []

    def act(loop: SimulatedLoop, owner: Owner) -> None:
        owner.budget, owner.exhausted = 1, lambda: ended.append(1)

    _with_victim(act)
    assert ended == [1]


def test_tasks_in_sets_have_an_order_that_is_no_address() -> None:
    async def work() -> list[int]:
        tasks = {asyncio.ensure_future(asyncio.sleep(0, number)) for number in range(50)}
        done, _ = await asyncio.wait(tasks)
        return [task.result() for task in done]

    assert run(new_loop(), work()) == run(new_loop(), work())


def test_a_process_knows_its_unfinished_tasks_alone_and_in_the_order_of_their_start() -> None:
    """Also after so many short ones that those which ended are dropped."""
    one, other = Owner("one"), Owner("other")

    async def work() -> tuple[list[str], list[str]]:
        loop = asyncio.get_running_loop()
        contexts = {owner: copy_context() for owner in (one, other)}
        for owner, context in contexts.items():
            context.run(CURRENT.set, owner)
        kept = [loop.create_task(asyncio.sleep(9), context=contexts[one], name="first")]
        for _ in range(5 * FEWEST_LOOKED_AT):
            await loop.create_task(asyncio.sleep(0), context=contexts[one])
        kept += [loop.create_task(asyncio.sleep(9), context=contexts[one], name="last")]
        kept += [loop.create_task(asyncio.sleep(9), context=contexts[other], name="foreign")]
        assert len(one._started) <= FEWEST_LOOKED_AT
        found = [[task.get_name() for task in owner.unfinished()] for owner in (one, other)]
        for task in kept:
            task.cancel()
        await asyncio.wait(kept)
        return found[0], found[1]

    assert run(new_loop(), work()) == (["first", "last"], ["foreign"])
