"""``python -m bench.console.pictures FOLDER``: the pictures of the console in the documents, from a real browser.

Those of the cluster show made-up content; the moving one is the 400-pod story of the demo on a local stack. With
``--views-of URL`` only the views beside the cluster are drawn, of a console that has something to show.
"""

from __future__ import annotations

import argparse
import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec.json import encode
from PIL import Image
from playwright.async_api import Browser, Page, expect

from bench.console.content import Large
from bench.console.process import console
from local.stack import Stack
from shared.concurrency.tasks import TaskGroup
from shared.redis.mirror import Change
from tests.support.console.browser import MISSING, chromium, launched
from tests.support.console.records import launching, pending
from tests.support.console.stage import Peer
from tests.support.stories.playground import playground_on, short_settings

NODES, PODS = 36, 560
SETTLED_MILLISECONDS = 2500
"""Motion of the page ends within this time."""
ANSWERED_MILLISECONDS = 15_000
"""The scheduler has planned an opened decision again."""
FRAME_SECONDS = 0.1
MOST_FRAMES = 120
COLOURS = 64
SHOWN_MILLISECONDS = 300
LOOKS = {
    "cluster-light": ("light", 1400, 860),
    "cluster-dark": ("dark", 1400, 860),
    "phone": ("light", 390, 780),
}
VIEWS = {
    "decisions": ("light", 1200, 620),
    "cost": ("dark", 1200, 720),
    "health": ("light", 1200, 760),
}
WAITING = [f"trainer-{number}" for number in range(3)]
REASON = "no instance type has enough resources"
STATUS = {
    "ready": True,
    "unschedulable": {f"default/{name}": f"incompatible with pool ({REASON})" for name in WAITING},
}
EXPLAINED = {"verdict": REASON, "changes": [{"text": "lower the request for cpu from 400 to 382"}]}
OPENED = 2
"""Cards of a view that are opened."""


@asynccontextmanager
async def page_at(browser: Browser, url: str, look: tuple[str, int, int]) -> AsyncIterator[Page]:
    """A live page in these colours (light or dark) and of this size in pixels."""
    scheme, width, height = look
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": height}}
    context = await browser.new_context(**options)  # type: ignore[arg-type]
    page = await context.new_page()
    await page.goto(url)
    await expect(page.get_by_test_id("connection")).to_have_text("live", timeout=20_000)
    yield page
    await context.close()


async def stills(browser: Browser, folder: Path) -> None:
    """The cluster view in each look."""
    peer = Peer(status=STATUS, explanations={"default/trainer-0": EXPLAINED})
    async with peer.running(), console(f"http://127.0.0.1:{peer.port}") as running:
        await running.writer.begin(Large(NODES, PODS).snapshot())
        waiting = [pending(name, cpu="400", memory="64Gi") for name in WAITING]
        changes = [Change("pods", one.key, encode(one)) for one in waiting]
        new = launching("default-new")
        await running.writer.apply([*changes, Change("machines", new.key, encode(new))])
        for name, look in LOOKS.items():
            async with page_at(browser, running.url, look) as page:
                await expect(page.get_by_test_id("node-count")).to_have_text(str(NODES + 1))
                await expect(page.locator(".change").first).to_be_visible(timeout=40_000)
                await page.wait_for_timeout(SETTLED_MILLISECONDS)
                await save(page, folder / f"{name}.png")


async def save(page: Page, path: Path) -> None:
    """What the page shows now."""
    shot = Image.open(io.BytesIO(await page.screenshot()))
    shot.convert("RGB").save(path, optimize=True)


async def views(browser: Browser, url: str, folder: Path) -> None:
    """The views beside the cluster, with some cards opened."""
    for name, look in VIEWS.items():
        async with page_at(browser, url, look) as page:
            await page.get_by_test_id(f"tab-{name}").click()
            view = page.locator(f"#view-{name}")
            await expect(view).not_to_contain_text("Loading", timeout=20_000)
            for summary in (await view.locator("li.card summary").all())[:OPENED]:
                await summary.click()
            await page.wait_for_timeout(ANSWERED_MILLISECONDS)
            await save(page, folder / f"{name}.png")


async def story(browser: Browser, folder: Path) -> None:
    """400 pods come and go, in a moving picture."""
    with TemporaryDirectory() as place:
        stack = Stack(Path(place) / "stack")
        settings = replace(short_settings(stack.directory), console=True)
        await asyncio.to_thread(stack.start, settings, detach=False)
        try:
            frames = await story_frames(browser, stack)
        finally:
            await asyncio.to_thread(stack.stop)
    first, *others = [frame.quantize(COLOURS) for frame in frames]
    first.save(
        folder / "story.gif", save_all=True, append_images=others, duration=SHOWN_MILLISECONDS,
        loop=0, optimize=True,
    )  # fmt: skip


async def story_frames(browser: Browser, stack: Stack) -> list[Image.Image]:
    """One picture every ``FRAME_SECONDS`` until the story ends, at most ``MOST_FRAMES``. Equal ones are left out."""
    frames: list[bytes] = []
    async with playground_on(stack) as playground, TaskGroup() as group:
        url = playground.environment.services["console"]
        async with page_at(browser, url, ("light", 900, 520)) as page:
            playing = group.create_task(playground.play("burst-400"))
            while not playing.done() and len(frames) < MOST_FRAMES:
                shot = await page.screenshot()
                frames += [shot] * (shot not in frames[-1:])
                await asyncio.wait([playing], timeout=FRAME_SECONDS)
            await playing
    return [Image.open(io.BytesIO(shot)).convert("RGB") for shot in frames]


async def draw(folder: Path, url: str) -> None:
    """All pictures; with a ``url`` those of the views of this console."""
    program = chromium()
    if program is None:
        raise SystemExit(MISSING)
    async with launched(program) as browser:
        if url:
            await views(browser, url, folder)
            return
        await stills(browser, folder)
        await story(browser, folder)


def main() -> None:
    """Draws into the folder that is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--views-of", default="", metavar="URL", help="a running console")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(draw(chosen.folder, chosen.views_of))


if __name__ == "__main__":
    main()
