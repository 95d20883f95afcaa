"""When the picture of a kind may be out of date, and what is said then."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from services.watcher.mirror import comparison
from services.watcher.mirror.comparison import positions, problem_of
from shared.concurrency.clock import SystemClock
from shared.errors import Unavailable
from shared.kube.client import Kube
from shared.kube.informer import Event, Informer
from shared.kube.resources import PODS, Resource
from shared.kube.transport.connection import Timeouts
from tests.support.waiting import wait_until

CLOCK = SystemClock()
BOOKMARK_SECONDS = 60.0
"""How often an API server sends one, at least (Kubernetes API concepts, watch bookmarks)."""


def informer_of(kube: Kube, resource: Resource = PODS) -> Informer:
    async def take(_event: Event) -> None:
        return None

    return Informer(kube, resource, on_event=take, clock=CLOCK, random=Random(1))


def test_a_silent_watch_is_opened_again_before_it_is_told_and_after_a_bookmark_is_due() -> None:
    assert BOOKMARK_SECONDS < Timeouts().watch_silence < comparison.SILENT_SECONDS


async def test_a_kind_that_was_never_listed_says_so_with_the_reason(kube: Kube) -> None:
    informer = informer_of(kube)
    assert problem_of("pods", informer, CLOCK.monotonic()) == "pods were never listed"
    informer.last_error = Unavailable("list pods: overloaded (503)")
    told = problem_of("pods", informer, CLOCK.monotonic())
    assert told == "pods were never listed: list pods: overloaded (503)"


async def test_an_open_watch_is_sound_until_it_is_closed_or_silent_for_long(
    kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    informer, stop = informer_of(kube), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(informer.run(stop))
        await wait_until(lambda: informer.sound, "the watch is open")
        heard = informer.last_progress
        told = positions({"pods": informer}, frozenset(), heard)["pods"]
        assert (told.version, told.sound) == (informer.position, True)
        assert not positions({"pods": informer}, {"pods"}, heard)["pods"].sound, "known to be wrong"
        # Not the very limit: the machine's clock has fractions that a sum rounds.
        assert problem_of("pods", informer, heard + comparison.SILENT_SECONDS - 1) == ""
        silent = problem_of("pods", informer, heard + comparison.SILENT_SECONDS + 1)
        assert silent == "the watch of pods has been silent for 81 s"
        stop.set()
    assert not informer.sound
    assert problem_of("pods", informer, CLOCK.monotonic()) == "", "not yet"
    monkeypatch.setattr(comparison, "UNSOUND_SECONDS", -1.0)
    assert "pods have not been watched for 0 s" in problem_of("pods", informer, CLOCK.monotonic())
