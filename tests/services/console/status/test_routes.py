"""The console over HTTP: the picture, its changes, details, reports, and who may read."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from aiohttp import web
from msgspec.structs import replace

from services.console.status.access import COOKIE, check_open
from services.console.status.page_files import page_files
from shared.errors import ConfigurationError
from shared.redis.bus import Bus
from shared.redis.mirror import Change
from tests.services.console.conftest import NOBODY, SOUND, Console, Start
from tests.support.network.status_server import free_port
from tests.support.planning.builders import make_machine, make_node, make_pod


async def events(
    console: Console, count: int, last_id: str = ""
) -> list[tuple[str, str, dict[str, Any]]]:
    """The first events of a connection, without beats: (name, id, data)."""
    found: list[tuple[str, str, dict[str, Any]]] = []
    headers = {"Last-Event-ID": last_id} if last_id else {}
    async with asyncio.timeout(30), console.client.get("/api/stream", headers=headers) as response:
        fields: dict[str, str] = {}
        async for line in response.content:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                fields[name] = value
            elif fields.get("event") != "beat":
                found.append((fields["event"], fields["id"], orjson.loads(fields["data"])))
                if len(found) == count:
                    return found
    raise AssertionError("the stream ended")


async def test_the_picture_is_that_of_the_mirror(console: Console) -> None:
    await console.show(
        nodes=[make_node("a")], machines=[make_machine("m", node_name="a")],
        pods=[make_pod("web", node_name="a", phase="Running")],
    )  # fmt: skip
    found = await console.until("/api/cluster", lambda picture: picture["pods"])
    assert [(row["id"], row["state"]) for row in found["nodes"]] == [("Machine/m", "launching")]
    assert found["pods"][0]["node"] == "Machine/m"
    assert (found["trusted"]["ok"], found["trusted"]["reason"]) == (True, "")


async def test_a_page_that_was_away_continues_without_a_gap(console: Console) -> None:
    await console.show(nodes=[make_node("a")])
    await console.until("/api/cluster", lambda picture: picture["nodes"])
    ((_, event_id, _),) = await events(console, 1)
    await console.show(("nodes", "a"), nodes=[make_node("b")])
    ((name, _, change),) = await events(console, 1, event_id)
    assert name == "change"
    assert change["gone"]["nodes"] == ["Node/a"]
    assert [row["id"] for row in change["put"]["nodes"]] == ["Node/b"]


async def test_after_a_restart_a_page_gets_the_whole_picture(start_console: Start) -> None:
    async with start_console(**NOBODY) as console:
        ((_, event_id, _),) = await events(console, 1)
    async with start_console(**NOBODY) as console:
        await console.show(nodes=[make_node("a")])
        await console.until("/api/cluster", lambda picture: picture["nodes"])
        ((name, _, picture),) = await events(console, 1, event_id)
    assert (name, len(picture["nodes"])) == ("snapshot", 1)


async def test_a_page_may_go_on_at_another_replica(start_console: Start) -> None:
    """Each has numbers of its own: a position of another one leads to a whole picture, not to a gap."""
    async with start_console(**NOBODY) as one, start_console(**NOBODY) as other:
        await other.show(nodes=[make_node("a")])
        for replica in (one, other):
            await replica.until("/api/cluster", lambda picture: picture["nodes"])
        ((_, event_id, first),) = await events(one, 1)
        ((name, _, second),) = await events(other, 1, event_id)
    assert name == "snapshot"
    assert second["nodes"] == first["nodes"]


@pytest.mark.slow
async def test_the_scheduler_is_asked_for_changes_only_while_somebody_looks(
    start_console: Start,
) -> None:
    asked: list[dict[str, Any]] = []

    async def explain(request: web.Request) -> web.Response:
        asked.append(await request.json())
        edit = {"object": "Pod default/web", "text": "tolerate the taint"}
        return web.json_response({"verdict": "x", "changes": [edit]})

    async def status(_request: web.Request) -> web.Response:
        return web.json_response({"ready": True, "unschedulable": {"default/web": "no pool"}})

    port = free_port()
    runner = await serving(port, explain, status)
    async with start_console(**NOBODY | {"scheduler_url": f"http://127.0.0.1:{port}"}) as console:
        await console.show(pods=[make_pod("web", unschedulable=True)])
        found = await console.until("/api/cluster", lambda c: "verdict" in str(c["pods"]))
        assert found["pods"][0]["verdict"] == "no pool"
        assert [one for one in asked if "pod" in one] == []
        async with console.client.get("/api/stream"):
            found = await console.until("/api/cluster", lambda c: "change" in str(c["pods"]))
    await runner.cleanup()
    assert found["pods"][0]["change"] == "tolerate the taint"
    assert [one for one in asked if "pod" in one] == [{"pod": "default/web"}]


@pytest.mark.slow
async def test_the_scheduler_is_asked_for_ledgers_only_while_somebody_looks_at_them(
    start_console: Start,
) -> None:
    asked: list[str] = []

    async def ledger(request: web.Request) -> web.Response:
        name = request.match_info["name"]
        asked.append(name)
        if name == "regret":
            return web.json_response({"error": "decisions are not recorded here"}, status=404)
        return web.json_response({"rules": [{"rule": "spread"}]})

    app = web.Application()
    app.router.add_get("/explain/ledgers/{name}", ledger)
    port = free_port()
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    async with start_console(**NOBODY | {"scheduler_url": f"http://127.0.0.1:{port}"}) as console:
        await console.until("/api/cluster", lambda _: True)
        assert asked == []
        found = await console.until("/api/ledgers", lambda d: d["constraints"] and d["problems"])
        await console.get("/api/ledgers")
    await runner.cleanup()
    assert found["constraints"]["rules"] == [{"rule": "spread"}]
    assert found["regret"] is None
    assert found["problems"] == {"regret": "decisions are not recorded here"}
    assert sorted(asked) == ["constraints", "regret"]


async def test_a_picture_that_cannot_be_trusted_says_so(start_console: Start) -> None:
    async with start_console(**NOBODY, mirror_max_age="0s") as console:
        found = await console.until("/api/cluster", lambda picture: not picture["trusted"]["ok"])
        assert "is the watcher running?" in found["trusted"]["reason"]
        status, ready = await console.get("/readyz")
        assert (status, ready["reasons"]) == (503, [ready["reasons"][0]])


async def test_the_picture_has_the_time_since_the_api_server_was_heard(console: Console) -> None:
    """Of the watch that was heard last, in tens of seconds."""
    silent = {plural: replace(one, seconds=47.0) for plural, one in SOUND.items()}
    await console.writer.heartbeat(silent)
    await console.until("/api/cluster", lambda picture: picture["trusted"]["heard"] == 40)
    await console.writer.heartbeat({**silent, "pods": SOUND["pods"]})
    await console.until("/api/cluster", lambda picture: picture["trusted"]["heard"] == 0)


async def test_a_silent_watcher_makes_the_picture_old_long_before_the_scheduler_stops(
    start_console: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader of the page decides within seconds, on what it shows."""
    monkeypatch.setattr("services.console.console.OLD_SECONDS", 0.1)
    async with start_console(**NOBODY) as console:
        await console.show(nodes=[make_node("a")])
        await console.until("/api/cluster", lambda d: "Redis and the" in d["trusted"]["reason"])
        status, _ = await console.get("/readyz")
        assert status == 200


async def test_details_of_a_node_come_without_the_scheduler_too(console: Console) -> None:
    await console.show(nodes=[make_node("a")], machines=[make_machine("m", node_name="a")])
    await console.until("/api/cluster", lambda picture: picture["nodes"])
    status, found = await console.get("/api/node?id=Machine/m")
    assert status == 200
    assert found["labels"]["kubernetes.io/hostname"] == "a"
    assert "the scheduler does not answer" in found["problem"]


async def test_what_is_not_there_is_not_found(console: Console) -> None:
    for path in ("/api/node?id=Machine/x", "/api/pod?name=default/x", "/api/node"):
        status, found = await console.get(path)
        assert (status, "not there" in found["error"]) == (404, True)


async def scheduler_that_explains(port: int) -> web.AppRunner:
    """Answers as the scheduler does about one pending pod."""

    async def explain(request: web.Request) -> web.Response:
        assert await request.json() == {"pod": "default/web"}
        edit = {"object": "Pod default/web", "text": "tolerate the taint"}
        return web.json_response({"verdict": "no pool tolerates it", "changes": [edit]})

    return await serving(port, explain)


async def serving(port: int, explain: Any, status: Any = None) -> web.AppRunner:
    """A scheduler with these handlers, until its cleanup."""
    app = web.Application()
    app.router.add_post("/explain", explain)
    if status is not None:
        app.router.add_get("/status", status)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    return runner


async def test_a_pending_pod_comes_with_its_verdict_and_the_smallest_change(
    start_console: Start,
) -> None:
    port = free_port()
    runner = await scheduler_that_explains(port)
    async with start_console(**NOBODY | {"scheduler_url": f"http://127.0.0.1:{port}"}) as console:
        await console.show(pods=[make_pod("web", unschedulable=True)])
        await console.until("/api/cluster", lambda picture: picture["pods"])
        _, found = await console.get("/api/pod?name=default/web")
    await runner.cleanup()
    assert (found["verdict"], found["change"]["text"]) == (
        "no pool tolerates it",
        "tolerate the taint",
    )


async def test_the_queues_name_what_waits(console: Console, bus: Bus) -> None:
    _, found = await console.get("/api/queues")
    assert {one["stream"] for one in found["queues"]} >= {"pods", "launches", "terminations"}
    assert found["problem"] == ""


async def test_health_says_of_each_service_why_it_is_not_heard(console: Console) -> None:
    await console.show(nodes=[make_node("a")])  # with a heartbeat, by which the mirror is verified
    asked = await console.until("/api/health", lambda d: "answer" in d["services"][0]["problem"])
    assert [one["ready"] for one in asked["services"]] == [False] * 5
    found = await console.until("/api/health", lambda d: d["mirror"]["ok"])
    assert all(watch["sound"] for watch in found["watches"])


@pytest.mark.parametrize("name", ["decisions", "cost", "interruptions", "history"])
async def test_every_report_is_there_from_the_start(console: Console, name: str) -> None:
    status, _ = await console.get(f"/api/{name}")
    assert status == 200


async def test_a_moment_of_the_past_can_be_shown(console: Console) -> None:
    await console.show(nodes=[make_node("a")])
    span = await console.until("/api/history", lambda found: found["to"] > found["from"])
    found = await console.until(f"/api/history/at?t={span['to'] + 9}", lambda d: d.get("nodes"))
    assert [row["id"] for row in found["nodes"]] == ["Node/a"]
    between = f"from={span['from']}&to={span['from'] + 10}"
    status, played = await console.get(f"/api/history/changes?{between}")
    assert (status, "changes" in played) == (200, True)


@pytest.mark.parametrize(
    "path", ["at?t=soon", "at", "at?t=nan", "changes?from=1", "changes?from=5&to=1", "changes?from=1&to=99"]
)  # fmt: skip
async def test_a_wrong_moment_is_refused_with_its_parameter(console: Console, path: str) -> None:
    status, found = await console.get(f"/api/history/{path}")
    assert status == 400
    assert "seconds since the epoch" in found["error"]


async def test_the_page_loads_nothing_from_elsewhere(console: Console) -> None:
    for path in ("/", "/main.js", "/api/cluster"):
        async with console.client.get(path) as response:
            assert response.status == 200
            assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    assert not [name for name, file in page_files().items() if b"https://" in file.body
                and not name.startswith("/vendor") and b"w3.org" not in file.body]  # fmt: skip


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:80", "[::", ""])
async def test_an_open_console_answers_only_under_a_name_of_this_machine(
    console: Console, host: str
) -> None:
    """A page of another site may have its name lead to 127.0.0.1."""
    status, _ = await console.get("/api/cluster", Host=host)
    assert status == 421


async def test_without_a_token_nothing_of_the_cluster_is_shown(start_console: Start) -> None:
    async with start_console(**NOBODY, console_access="authenticated") as console:
        for path in ("/api/cluster", "/api/stream", "/api/node?id=x", "/api/history"):
            status, found = await console.get(path)
            assert (status, "token" in found["error"]) == (401, True)
        status, _ = await console.get("/api/cluster", Authorization="Bearer forged")
        assert status in (401, 503)
        async with console.client.get("/") as page:
            assert page.status == 200


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"token": 5}', b"x" * 30_000])
async def test_a_sign_in_without_a_good_token_sets_no_cookie(
    start_console: Start, body: bytes
) -> None:
    async with (
        start_console(**NOBODY, console_access="authenticated") as console,
        console.client.post("/api/session", data=body) as response,
    ):
        assert response.status == 401
        assert COOKIE not in response.cookies


async def test_an_open_console_on_a_network_does_not_start() -> None:
    for host in ("0.0.0.0", "10.0.0.1", "::", "console.example"):
        with pytest.raises(ConfigurationError, match="CONSOLE_ACCESS"):
            check_open("open", host)
    for host in ("127.0.0.1", "::1", "localhost"):
        check_open("open", host)
    check_open("authenticated", "0.0.0.0")


async def test_a_record_of_another_version_does_not_hide_the_others(console: Console) -> None:
    await console.writer.apply([Change("nodes", "old", b'{"uid": 5}')])
    await console.show(nodes=[make_node("a")])
    found = await console.until("/api/cluster", lambda picture: picture["nodes"])
    assert [row["name"] for row in found["nodes"]] == ["a"]
    _, status = await console.get("/status")
    assert status["unreadable"] == 1


@pytest.mark.slow
async def test_a_record_of_another_version_is_named_until_it_can_be_read(console: Console) -> None:
    await console.show(pods=[make_pod("web")])
    await console.until("/api/cluster", lambda picture: picture["pods"])
    await console.writer.apply([Change("pods", "default/web", b'{"uid": 5}')])
    found = await console.until("/api/cluster", lambda picture: not picture["trusted"]["ok"])
    assert "pods default/web cannot be read" in found["trusted"]["reason"]
    status, details = await console.get("/api/pod?name=default/web")
    assert (status, details["labels"]) == (200, {})
    status, _ = await console.get("/readyz")
    assert status == 200
    await console.writer.apply([Change("pods", "default/web", None)])
    await console.until("/api/cluster", lambda picture: picture["trusted"]["ok"])


async def test_a_decision_that_nobody_can_explain_says_why(console: Console) -> None:
    status, found = await console.get("/api/decision?id=unknown@1.0")
    assert status == 200
    assert found["policies"] == {}
    assert "scheduler" in found["problem"]


@pytest.mark.parametrize("wrong", ["", "unknown", "%00", "..%2f"])
async def test_what_is_no_row_of_decisions_is_not_there(console: Console, wrong: str) -> None:
    """The scheduler was asked for a decision without an id, and asked back for a node."""
    status, found = await console.get(f"/api/decision?id={wrong}")
    assert status == 404
    assert "is not there" in found["error"]


async def test_a_wrong_path_is_answered_with_the_pages_not_with_each_file(console: Console) -> None:
    status, found = await console.get("/api/nope")
    assert status == 404
    assert "/api/cluster" in found["error"]
    assert ".js" not in found["error"]
