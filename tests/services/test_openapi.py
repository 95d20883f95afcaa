"""Requests made from the OpenAPI documents of the scheduler and the console: none is answered by a defect, and where a
token is asked for nobody is answered without one. The other services have the same pages without questions
(``tests/e2e/stacks`` tries all six at night).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from services.scheduler.approval.endpoint import ApprovalEndpoint
from services.scheduler.ledgers.endpoint import ledgers
from services.scheduler.status.access import offered
from services.scheduler.status.explain_record import RecordExplainer
from services.scheduler.status.simulate import Simulator
from shared.concurrency.clock import SystemClock
from shared.kube.client import Kube
from shared.kube.token_access import TokenAccess
from shared.metrics import Metrics
from shared.redis.bus import Bus
from shared.redis.mirror.catalogue.offerings import CatalogueStore
from shared.runtime.archive.place import ArchivePlace
from shared.runtime.leadership import Leadership
from shared.runtime.services import Service
from shared.runtime.status import Listener, mount, server_loop
from shared.settings import SchedulerSettings, read
from shared.solver.solve import SolverSettings
from tests.services.console.conftest import NOBODY, Start, start_console
from tests.services.scheduler.conftest import Scheduler, scheduler
from tests.support.network.made_requests import try_all
from tests.support.network.status_server import free_port, running

__all__ = ["scheduler", "start_console"]

NIGHT = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
EXAMPLES = 200 if NIGHT else 4
BY_GET = {
    "/explain/pods/{pod}",
    "/explain/nodes/{node}",
    "/explain/pools/{pool}",
    "/explain/decisions/{id}",
    "/explain/ledgers/constraints",
    "/explain/ledgers/regret",
}
# Requests are made in a thread beside the server's loop, whose random numbers Hypothesis takes for those of a strategy.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Do not use the .random. module:hypothesis.errors.HypothesisDeprecationWarning"
)
OPEN_PATHS = {"/healthz", "/readyz", "/metrics", "/status"}
"""They say nothing that needs a right (docs/operating/security.md)."""
ENDLESS = {"/api/stream"}
SLOW: set[str] = set() if NIGHT else {"/simulate"}
"""Each simulation is a process of its own."""


@pytest.fixture
def more_settings() -> dict[str, Any]:
    """No watcher writes the mirror, and a night's requests take half an hour."""
    return {"mirror_max_age": 7200.0}


def no_defect(case: Any, answer: Any) -> None:
    assert answer.status_code < 500 or (answer.status_code == 503 and case.path == "/readyz"), (
        case.as_curl_command(), answer.text,
    )  # fmt: skip


def no_answer(case: Any, answer: Any) -> None:
    no_defect(case, answer)
    if case.path not in OPEN_PATHS:
        assert answer.status_code in (401, 405), (case.as_curl_command(), answer.text)


@asynccontextmanager
async def served_scheduler(
    mode: str, scheduler: Scheduler, bus: Bus, kube: Kube
) -> AsyncIterator[str]:
    clock = SystemClock()
    simulator = Simulator(CatalogueStore(bus.redis, bus.prefix))
    records = RecordExplainer(ArchivePlace("", "", "one"))
    parts, access = scheduler.parts, TokenAccess(kube, clock)
    approvals = ApprovalEndpoint(parts.disruption.approvals, clock)
    settings = read(SchedulerSettings, cluster_name="one", questions=mode)
    leading = Leadership(None, clock)
    questions = [
        *offered(mode, simulator, parts.explainer, records, approvals, access),
        *ledgers(settings, scheduler.cluster, SolverSettings, clock, leading, access),
    ]
    service = Service("scheduler", [], Metrics("scheduler"), dict, questions=questions)
    port = free_port()
    app = mount([service], clock, docs=True)
    async with running(server_loop(Listener(app, "127.0.0.1", port)), port):
        yield f"http://127.0.0.1:{port}"


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "judge"), [("open", no_defect), ("authenticated", no_answer)])
async def test_the_scheduler(
    mode: str, judge: Any, scheduler: Scheduler, bus: Bus, kube: Kube, tmp_path: Path
) -> None:
    async with served_scheduler(mode, scheduler, bus, kube) as url:
        slow = SLOW if mode == "open" else set()
        tried = await asyncio.to_thread(try_all, url, judge, examples=EXAMPLES, leave_out=slow)
    assert (
        tried
        == {*OPEN_PATHS, *BY_GET, "/simulate", "/explain", "/approvals", "/approvals/{id}"} - slow
    )


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "judge"), [("open", no_defect), ("authenticated", no_answer)])
async def test_the_console(mode: str, judge: Any, start_console: Start) -> None:
    async with start_console(console_access=mode, docs=True, **NOBODY) as console:
        url = f"http://127.0.0.1:{console.port}"
        tried = await asyncio.to_thread(try_all, url, judge, examples=EXAMPLES, leave_out=ENDLESS)
    assert {"/api/cluster", "/api/session", "/api/history/at", "/api/queues"} <= tried
