"""``python -m bench.console``: the console's page with 1,000 nodes and 20,000 pods, of which 200 a second change.

Measured in a headless Chromium without a graphics card: seconds to the first picture, frames a second, the memory of
the console's process and of the page's scripts, at the start and after as many changes as an hour brings, written as
fast as the console shows them. Each pod that comes has a new name, so what is not forgotten is seen to grow.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page

from bench.console.content import Large
from bench.console.process import Running, console
from bench.report import Row, save, show
from tests.support.console.browser import MISSING, chromium, launched
from tests.support.waiting import wait_until

NODES, PODS, A_SECOND, HOUR = 1000, 20_000, 200, 3600
RUNS = 5
STEP_SECONDS = 0.25
MEASURED_SECONDS = 10.0
FAST = 1000
"""Changes of one step while an hour is speeded up."""
BARS = {
    "seconds to the first picture": "<= 2",
    "frames a second": ">= 30",
    "console MiB": "<= 200",
    "console MiB after an hour": "<= 200",
}
FIRST = """
window.firstPicture = new Promise((resolve) => {
  let before;
  const look = () => {
    const {state, frames} = window.dovetail ?? {};
    if (state?.nodes === NODES) before ??= frames.count;
    if (frames?.count > before) resolve(performance.now() / 1000);
    else requestAnimationFrame(look);
  };
  look();
});
"""
PATIENCE_SECONDS = 60.0


async def first_picture(browser: Browser, running: Running, nodes: int) -> tuple[Page, float]:
    """(a new page, seconds from its request until it painted all nodes)."""
    page = await browser.new_page(viewport={"width": 1600, "height": 1000})
    await page.add_init_script(FIRST.replace("NODES", str(nodes)))
    await page.goto(running.url)
    async with asyncio.timeout(PATIENCE_SECONDS):
        return page, float(await page.evaluate("window.firstPicture"))


async def frames_a_second(page: Page, running: Running, large: Large) -> float:
    """Painted frames a second while ``A_SECOND`` pods change; the picture moves all the time then."""
    await _change(running, large, 2.0)
    begun, before = time.monotonic(), await page.evaluate("window.dovetail.frames.count")
    await _change(running, large, MEASURED_SECONDS)
    painted = await page.evaluate("window.dovetail.frames.count") - before
    return float(painted / (time.monotonic() - begun))


async def _change(running: Running, large: Large, seconds: float) -> None:
    """Changes at their usual pace."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        next_step = time.monotonic() + STEP_SECONDS
        await running.writer.apply(large.changes(int(A_SECOND * STEP_SECONDS)))
        await asyncio.sleep(max(0.0, next_step - time.monotonic()))


async def hour(page: Page, running: Running, large: Large, seconds: int) -> None:
    """As many changes as ``seconds`` bring; the page shows each step before the next but one."""
    left = A_SECOND * seconds
    while left > 0:
        await running.writer.apply(large.changes(min(left, FAST)))
        left -= FAST
        await asyncio.sleep(STEP_SECONDS / 2)
    await running.writer.apply(large.changes(2)[:1])
    shown = f"window.dovetail.state.pods === {PODS - 1}"
    await wait_until(lambda: page.evaluate(shown), "the page shows the last change", every=0.1)


async def heap_mib(page: Page) -> float:
    """What the page's scripts hold, without garbage."""
    session = await page.context.new_cdp_session(page)
    await session.send("HeapProfiler.collectGarbage")
    used: dict[str, Any] = await session.send("Runtime.getHeapUsage")
    await session.detach()
    return float(used["usedSize"]) / 1024**2


async def median_of(runs: int, measure: Callable[[], Awaitable[float]]) -> float:
    """The median of several runs."""
    return statistics.median([await measure() for _ in range(runs)])


async def measure(runs: int, seconds: int) -> dict[str, float]:
    """All figures by name."""
    program = chromium()
    if program is None:
        raise SystemExit(MISSING)
    async with console() as running, launched(program) as browser:
        large = Large(NODES, PODS)
        await running.writer.begin(large.snapshot())
        pages: list[Page] = []

        async def first() -> float:
            page, found = await first_picture(browser, running, NODES)
            pages.append(page)
            for old in pages[:-1]:
                await old.close()
            del pages[:-1]
            return found

        await first()
        figures = {"seconds to the first picture": await median_of(runs, first)}
        page = pages[0]
        figures["frames a second"] = await median_of(
            runs, lambda: frames_a_second(page, running, large)
        )
        figures |= {"console MiB": running.resident_mib(), "page heap MiB": await heap_mib(page)}
        used, begun = running.cpu_seconds(), time.monotonic()
        await hour(page, running, large, seconds)
        figures |= {
            "console MiB after an hour": running.resident_mib(),
            "page heap MiB after an hour": await heap_mib(page),
            "console CPU s of that hour": running.cpu_seconds() - used,
            "seconds it took": time.monotonic() - begun,
        }
        return figures


def rows_of(figures: dict[str, float]) -> list[Row]:
    """One row for each figure, with its bar."""
    return [
        {"what": name, "measured": round(figure, 2), "bar": BARS.get(name, "")}
        for name, figure in figures.items()
    ]


def main() -> None:
    """Measures and prints one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--hour", type=int, default=HOUR, help="seconds that are speeded up")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rows to this file")
    chosen = parser.parse_args()
    rows = rows_of(asyncio.run(measure(chosen.runs, chosen.hour)))
    show(f"the console's page, {NODES:,} nodes and {PODS:,} pods", rows)
    save(chosen.json, {"console": rows})


if __name__ == "__main__":
    main()
