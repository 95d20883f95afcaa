"""``/debug/profile`` over real HTTP: off unless chosen, one at a time, and over when its client is gone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import aiohttp
import pytest

from shared.concurrency.clock import SystemClock
from shared.metrics import Metrics
from shared.runtime.profiling.sampler import sample
from shared.runtime.services import Answer, Service, json_answer
from shared.runtime.status import Listener, mount, server_loop
from tests.support.network.status_server import free_port, running
from tests.support.waiting import wait_until

PATH = "/debug/profile"


@asynccontextmanager
async def serving(*names: str, profiling: bool = True) -> AsyncIterator[aiohttp.ClientSession]:
    services = [Service(name, [], Metrics(name), dict, list) for name in names or ("one",)]
    port, app = free_port(), mount(services, SystemClock(), profiling=profiling)
    async with (
        running(server_loop(Listener(app, "127.0.0.1", port)), port),
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
    ):
        yield client


@contextmanager
def a_thread_that_works() -> Iterator[None]:
    """In ``find_work``, until the end."""
    stop = threading.Event()

    def find_work() -> None:
        while not stop.is_set():
            sum(range(1000))

    thread = threading.Thread(target=find_work, name="busy;thread")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


async def test_it_is_off_unless_it_was_chosen() -> None:
    async with serving(profiling=False) as client, client.get(PATH) as response:
        assert response.status == 404
        assert PATH not in (await response.json())["error"].partition("; there are")[2]


async def test_who_is_not_admitted_gets_no_profile() -> None:
    """Nor from another service in the same process, which shows the same threads."""

    async def admit(credential: str) -> Answer | None:
        return None if credential == "Bearer good" else json_answer(401, {"error": "send a token"})

    guarded = Service("guarded", [], Metrics("guarded"), dict, list, admit_profile=admit)
    other = Service("other", [], Metrics("other"), dict, list)
    port, app = free_port(), mount([other, guarded], SystemClock(), profiling=True)
    async with (
        running(server_loop(Listener(app, "127.0.0.1", port)), port),
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
    ):
        for name in ("other", "guarded"):
            for token, status in (("bad", 401), ("good", 200)):
                headers = {"Authorization": f"Bearer {token}"}
                where = f"/{name}{PATH}?seconds=0.1"
                async with client.get(where, headers=headers) as response:
                    assert response.status == status
                    text = await response.text()
                    assert ("MainThread" in text) is (status == 200)


async def test_it_shows_where_threads_were() -> None:
    with a_thread_that_works():
        async with serving() as client, client.get(PATH, params={"seconds": "0.3"}) as response:
            assert response.status == 200
            assert response.content_type == "text/plain"
            lines = (await response.text()).splitlines()
    stacks = {stack: int(count) for stack, _, count in (line.rpartition(" ") for line in lines)}
    busy = [stack for stack in stacks if "find_work" in stack]
    assert busy
    assert all(stack.startswith("busy") for stack in busy)
    assert any(stack.startswith("MainThread;") for stack in stacks)
    assert not any("sampler.py" in stack for stack in stacks), "the sampling thread is left out"


async def test_it_is_also_a_speedscope_document() -> None:
    async with serving("one", "two") as client:
        question = {"seconds": "0.2", "format": "speedscope"}
        async with client.get(f"/two{PATH}", params=question) as response:
            document = await response.json()
    assert document["name"] == "two"
    assert document["profiles"][0]["samples"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seconds", "0"),
        ("seconds", "61"),
        ("seconds", "nan"),
        ("seconds", "soon"),
        ("format", "pdf"),
    ],
)
async def test_a_wrong_parameter_is_named(name: str, value: str) -> None:
    async with serving() as client, client.get(PATH, params={name: value}) as response:
        assert response.status == 422
        assert (await response.json())["error"].startswith(f"{name}: ")


async def test_one_at_a_time_and_a_client_that_leaves_ends_its_own() -> None:
    def sampling() -> bool:
        return any(thread.name == "profile" for thread in threading.enumerate())

    async with serving() as client:
        first = asyncio.ensure_future(client.get(PATH, params={"seconds": "60"}))
        await wait_until(sampling, "the first profile is being taken")
        async with client.get(PATH, params={"seconds": "0.1"}) as response:
            assert response.status == 429
            assert "try again" in (await response.json())["error"]
        first.cancel()
        await wait_until(lambda: not sampling(), "its client is gone, and so is its thread")
        async with client.get(PATH, params={"seconds": "0.1"}) as response:
            assert response.status == 200


def test_sampling_takes_no_longer_than_it_should_and_can_be_stopped() -> None:
    stop = threading.Event()
    stop.set()
    assert sample(3600, stop, SystemClock()).passes == 0
    assert sample(0.2, threading.Event(), SystemClock(), interval=0.01).passes <= 20
