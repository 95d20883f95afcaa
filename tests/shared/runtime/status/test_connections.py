"""The bounds of the status server: clients that say too little, too much or never listen keep nobody else out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp
import psutil
import pytest
from structlog.testing import capture_logs

from shared.concurrency.clock import SystemClock
from shared.metrics import Metrics
from shared.runtime.services import Answer, Question, Service
from shared.runtime.status import Limits, Listener, mount, probes, server_loop
from shared.runtime.status.pages import MOST_AT_ONCE
from tests.support.network.status_server import free_port, held, running, statuses
from tests.support.waiting import wait_until

CLOCK = SystemClock()
HALF_A_HEAD = b"GET /healthz HTTP/1.1\r\nhost: x\r\n"
HALF_A_BODY = b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nfour"
LONG = 3600.0
PATIENT = Limits(head_seconds=LONG, body_seconds=LONG, idle_seconds=LONG, unread_seconds=LONG)


def service(*questions: Question) -> Service:
    return Service("one", [], Metrics("one"), dict, questions=questions)


async def echo(body: bytes, _query: Mapping[str, str]) -> Answer:
    return Answer(200, body)


@asynccontextmanager
async def serving(limits: Limits, *questions: Question) -> AsyncIterator[int]:
    """The port of the pages."""
    port = free_port()
    pages = mount([service(*questions)], CLOCK)
    async with running(server_loop(Listener(pages, "127.0.0.1", port, limits)), port):
        yield port


@pytest.mark.parametrize("said", [b"", HALF_A_HEAD, HALF_A_BODY])
async def test_connections_that_never_finish_a_request_make_room(said: bytes) -> None:
    """70 of them, more than there is room for; none of their deadlines comes in this test."""
    question = Question("/echo", "", echo, most_bytes=100)
    async with serving(PATIENT, question) as port, held(port, 70, said):
        assert await statuses(port, "/healthz", 8) == [200] * 8
        assert await statuses(port, "/status", 8) == [200] * 8


async def test_that_connections_are_closed_is_told_once_a_minute() -> None:
    with capture_logs() as told:
        async with serving(PATIENT) as port, held(port, 70, HALF_A_HEAD):
            assert await statuses(port, "/healthz", 1) == [200]
    (line,) = [one for one in told if one["event"].startswith("closed connections")]
    assert (line["last_of"], line["awaited"]) == ("127.0.0.1", "the head of the request")


async def test_idle_connections_make_room() -> None:
    async with serving(PATIENT) as port, held(port, 70, HALF_A_HEAD + b"\r\n") as clients:
        for client in clients[-PATIENT.per_address :]:
            assert (await client.readline()).startswith(b"HTTP/1.1 200")
        assert await statuses(port, "/healthz", 8) == [200] * 8


async def test_the_longest_waiting_goes_first() -> None:
    limits = Limits(connections=3, per_address=3, head_seconds=LONG)
    async with serving(limits) as port, held(port, 3, HALF_A_HEAD) as (first, second, third):
        assert await statuses(port, "/healthz", 1) == [200]
        assert await rest(first) == b""
        assert not second.at_eof()
        assert not third.at_eof()


async def test_who_is_being_answered_is_never_sent_away_and_the_newest_is_told() -> None:
    release, asked = asyncio.Event(), asyncio.Semaphore(0)

    async def slow(body: bytes, _query: Mapping[str, str]) -> Answer:
        asked.release()
        await release.wait()
        return Answer(200, body)

    limits = Limits(connections=2, per_address=2)
    async with (
        serving(limits, Question("/slow", "", slow, 100)) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as other,
    ):
        answers = [asyncio.ensure_future(client.post("/slow", data=b"{}")) for _ in range(2)]
        for _ in answers:
            await asked.acquire()
        async with other.get("/healthz") as refused:
            assert refused.status == 503
            assert "all connections are in use" in (await refused.json())["error"]
        release.set()
        assert [one.status for one in await asyncio.gather(*answers)] == [200, 200]


@pytest.mark.parametrize(
    ("limits", "said", "told"),
    [
        (Limits(head_seconds=0.2), HALF_A_HEAD, b"the head of the request did not come in time"),
        (Limits(body_seconds=0.2), HALF_A_BODY, b"the body of the request did not come in time"),
    ],
)
async def test_a_request_that_does_not_come_in_time_is_ended_in_words(
    limits: Limits, said: bytes, told: bytes
) -> None:
    question = Question("/echo", "", echo, most_bytes=100)
    async with serving(limits, question) as port, held(port, 1, said) as (client,):
        async with asyncio.timeout(60):
            answer = await client.read()
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert told in answer


async def test_a_byte_now_and_then_buys_no_time() -> None:
    async with serving(Limits(head_seconds=0.3)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HALF_A_HEAD)
        ended = asyncio.ensure_future(reader.read())
        async with asyncio.timeout(60):
            while not ended.done():
                writer.write(b"x")
                await asyncio.wait([ended], timeout=0.05)
        assert (await ended).startswith(b"HTTP/1.1 408 ")
        writer.close()


@pytest.mark.slow
async def test_an_idle_connection_is_closed() -> None:
    request = HALF_A_HEAD + b"\r\n"
    async with serving(Limits(idle_seconds=1)) as port, held(port, 1, request) as (client,):
        assert (await rest(client)).startswith(b"HTTP/1.1 200 ")


async def test_a_client_that_does_not_read_its_answer_is_cut_off() -> None:
    async def long(_body: bytes, _query: Mapping[str, str]) -> Answer:
        return Answer(200, b"x" * 64_000_000)

    request = b"POST /long HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"
    question = Question("/long", "", long, most_bytes=100)
    async with (
        serving(Limits(unread_seconds=0.2), question) as port,
        held(port, 1, request) as (client,),
    ):
        client._transport.pause_reading()  # type: ignore[attr-defined]
        await wait_until(lambda: open_connections(port) == 0, "the connection is gone")


def open_connections(port: int) -> int:
    """How many this process' servers hold on ``port``, as the kernel says."""
    found = psutil.Process().net_connections("tcp")
    return sum(
        1
        for one in found
        if one.laddr and one.laddr.port == port and one.status == psutil.CONN_ESTABLISHED
    )


async def test_few_bodies_are_held_at_once() -> None:
    """Large bodies that never end would fill the memory: who comes beyond them is told before anything is read."""
    question = Question("/echo", "", echo, most_bytes=1_000_000)
    async with serving(PATIENT, question) as port:
        url = f"http://127.0.0.1:{port}"
        async with aiohttp.ClientSession(url) as client:
            async with held(port, MOST_AT_ONCE, HALF_A_BODY):
                await wait_until(lambda: is_answered(client, 429), "no place is left")
            await wait_until(lambda: is_answered(client, 200), "their places are free again")


async def is_answered(client: aiohttp.ClientSession, status: int) -> bool:
    async with client.post("/echo", data=b"whole") as response:
        return response.status == status


async def test_a_head_that_is_too_large_is_refused() -> None:
    head = b"GET /healthz HTTP/1.1\r\nx: " + b"y" * 40_000
    async with serving(PATIENT) as port, held(port, 1, head) as (client,):
        # The refusal may be lost: the client has sent more than the server has read.
        assert (await rest(client))[:13] in (b"HTTP/1.1 400 ", b"")
        assert await statuses(port, "/healthz", 1) == [200]


async def rest(client: asyncio.StreamReader) -> bytes:
    """All that comes until the connection ends, orderly or not."""
    async with asyncio.timeout(60):
        try:
            return await client.read()
        except ConnectionError:
            return b""


async def test_probes_have_a_port_that_the_others_cannot_fill() -> None:
    """Both ports under attack, from the same address even."""
    status, probe = free_port(), free_port()
    asked = [service()]
    loop = server_loop(
        Listener(mount(asked, CLOCK), "127.0.0.1", status, PATIENT),
        Listener(probes(asked, CLOCK), "127.0.0.1", probe, PATIENT),
    )
    async with (
        running(loop, status, probe),
        held(status, 70, HALF_A_HEAD),
        held(probe, 70, HALF_A_HEAD),
    ):
        for path in ("/healthz", "/readyz"):
            assert await statuses(probe, path, 4) == [200] * 4
        assert await statuses(probe, "/metrics", 1) == [404]


async def test_a_process_of_several_services_is_ready_when_all_are() -> None:
    port = free_port()
    unready = Service("two", [], Metrics("two"), dict, lambda: ["no mirror yet"])
    listener = Listener(probes([service(), unready], CLOCK), "127.0.0.1", port)
    async with running(server_loop(listener), port):
        assert await statuses(port, "/healthz", 1) == [200]
        assert await statuses(port, "/readyz", 1) == [503]
