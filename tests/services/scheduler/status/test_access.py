"""Who may ask the scheduler (QUESTIONS), over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from services.scheduler.approval.endpoint import ApprovalEndpoint
from services.scheduler.status.access import offered, profile_admission
from services.scheduler.status.explain_record import RecordExplainer
from services.scheduler.status.simulate import Simulator
from shared.concurrency.clock import SystemClock
from shared.kube.token_access import TokenAccess
from shared.metrics import Metrics
from shared.redis.bus import Bus
from shared.redis.mirror.catalogue.offerings import CatalogueStore
from shared.runtime.archive.place import ArchivePlace
from shared.runtime.services import Service
from shared.runtime.status import Listener, mount, server_loop
from shared.settings import SchedulerSettings, read
from tests.services.scheduler.conftest import Scheduler
from tests.shared.kube.test_token_access import ALLOWED, DENIED, KNOWN
from tests.support.cluster.fixture import connect, write_kubeconfig
from tests.support.cluster.scripted_api import ScriptedApi, scripted_api
from tests.support.network.status_server import free_port, running

CLOCK = SystemClock()
TOKEN = {"Authorization": "Bearer a-token"}


@asynccontextmanager
async def asked(
    mode: str, scheduler: Scheduler, bus: Bus, folder: Path
) -> AsyncIterator[tuple[aiohttp.ClientSession, ScriptedApi]]:
    """A client of a scheduler's questions, and the API server that the scheduler asks about tokens."""
    async with scripted_api() as api:
        kube = await connect(write_kubeconfig(folder / "kubeconfig", api.url))
        questions = offered(
            mode,
            Simulator(CatalogueStore(bus.redis, bus.prefix)),
            scheduler.parts.explainer,
            RecordExplainer(ArchivePlace("", "", "one")),
            ApprovalEndpoint(scheduler.parts.disruption.approvals, CLOCK),
            TokenAccess(kube, CLOCK),
        )
        approvals = scheduler.parts.disruption.approvals
        service = Service(
            "scheduler",
            [],
            Metrics("scheduler"),
            lambda: {"approvals": approvals.status()},
            questions=questions,
            admit_profile=profile_admission(mode, kube, CLOCK),
        )
        port = free_port()
        loop = server_loop(Listener(mount([service], CLOCK, profiling=True), "127.0.0.1", port))
        async with (
            running(loop, port),
            aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
        ):
            yield client, api
        await kube.close()


def test_they_are_off_unless_somebody_says_so() -> None:
    assert read(SchedulerSettings, cluster_name="one").questions == "off"


@pytest.mark.parametrize("path", ["/simulate", "/explain", "/approvals/one"])
async def test_where_they_are_off_the_answer_says_how_to_switch_them_on(
    path: str, scheduler: Scheduler, bus: Bus, tmp_path: Path
) -> None:
    async with asked("off", scheduler, bus, tmp_path) as (client, api):
        async with client.post(path, data=b"x" * 100_000, headers=TOKEN) as response:
            assert response.status == 403
            assert "QUESTIONS=authenticated" in (await response.json())["error"]
        assert api.requests == []


async def test_where_they_are_open_nobody_is_asked_for_a_token(
    scheduler: Scheduler, bus: Bus, tmp_path: Path
) -> None:
    async with asked("open", scheduler, bus, tmp_path) as (client, api):
        async with client.post("/explain", json={"node": "n1"}) as response:
            assert response.status == 404  # no such node
        assert api.requests == []


@pytest.mark.parametrize("path", ["pods/default/web", "pods/web", "nodes/n1", "pools/NodePool/a"])
async def test_one_object_is_asked_about_by_get(
    path: str, scheduler: Scheduler, bus: Bus, tmp_path: Path
) -> None:
    """The name is the rest of the path, with its namespace or kind; none of these exists."""
    async with (
        asked("open", scheduler, bus, tmp_path) as (client, _),
        client.get(f"/explain/{path}") as response,
    ):
        assert response.status == 404
        assert path.partition("/")[2] in (await response.json())["error"]
    async with (
        asked("authenticated", scheduler, bus, tmp_path) as (client, _),
        client.get(f"/explain/{path}") as response,
    ):
        assert response.status == 401


@pytest.mark.parametrize("path", ["pods/%0A0", "pods/web%0A", "nodes/n%0A1", "pools/%0A/a"])
async def test_a_line_break_in_a_name_is_no_way_around_the_token(
    path: str, scheduler: Scheduler, bus: Bus, tmp_path: Path
) -> None:
    async with (
        asked("authenticated", scheduler, bus, tmp_path) as (client, _),
        client.get(f"/explain/{path}") as response,
    ):
        assert response.status == 401


async def test_a_token_opens_what_its_user_may_post(
    scheduler: Scheduler, bus: Bus, tmp_path: Path
) -> None:
    async with asked("authenticated", scheduler, bus, tmp_path) as (client, api):
        async with client.post("/explain", json={"node": "n1"}) as response:
            assert response.status == 401
            assert "Authorization: Bearer" in (await response.json())["error"]
        api.others = [KNOWN, ALLOWED, KNOWN, DENIED]
        async with client.post("/explain", json={"node": "n1"}, headers=TOKEN) as response:
            assert response.status == 404  # no such node
        async with client.post("/simulate", json=[], headers=TOKEN) as response:
            assert response.status == 403
        async with client.get("/healthz") as response:
            assert response.status == 200


async def test_a_profile_needs_a_token_where_questions_need_one(
    scheduler: Scheduler, bus: Bus, tmp_path: Path
) -> None:
    path = "/debug/profile?seconds=0.1"
    async with asked("authenticated", scheduler, bus, tmp_path) as (client, api):
        async with client.get(path) as response:
            assert response.status == 401
        api.others = [KNOWN, DENIED]
        async with client.get(path, headers=TOKEN) as response:
            assert response.status == 403
            assert "may not get /debug/profile" in (await response.json())["error"]
        api.others = [KNOWN, ALLOWED]
        other = {"Authorization": "Bearer another-token"}
        async with client.get(path, headers=other) as response:
            assert response.status == 200
    async with (
        asked("open", scheduler, bus, tmp_path) as (client, _),
        client.get(path) as response,
    ):
        assert response.status == 200
