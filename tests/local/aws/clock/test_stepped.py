"""Time that passes at once."""

from __future__ import annotations

import threading

from local.aws.clock.stepped import SteppedClock
from local.aws.clock.timers import ThreadTimers
from tests.support.clock.fake import FakeClock


def test_a_step_comes_on_top_of_real_time() -> None:
    real = FakeClock(seconds=10.0, wall=1e9)
    clock = SteppedClock(real)
    clock.step(60)
    real.advance(1)
    clock.step(30)
    assert clock.monotonic() == 101.0
    assert clock.now() == 1e9 + 91


def test_what_falls_due_in_a_step_happens() -> None:
    clock = SteppedClock(FakeClock())
    timers, happened = ThreadTimers(clock), threading.Event()
    timers.after(3600, happened.set)
    timers.start()
    clock.step(3601)
    timers.wake()
    assert happened.wait(10)
    timers.stop()
