"""Who answers, over HTTP and by ``dovetail approvals``, ``approve`` and ``reject``."""

from __future__ import annotations

import asyncio
import getpass
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from shared.kube.client import Kube
from shared.redis.bus import Bus
from shared.runtime.services import CALLER
from tests.services.scheduler.approval.test_approvals import (
    approvals_of,
    ended,
    requiring,
    waiting,
    with_drift,
)
from tests.services.scheduler.conftest import Scheduler
from tests.services.scheduler.status.test_access import TOKEN, asked
from tests.shared.kube.test_token_access import ALLOWED, DENIED, KNOWN, USER


async def offer(scheduler: Scheduler, kube: Kube) -> dict[str, Any]:
    await with_drift(scheduler, kube, requiring())
    await scheduler.disruption.step()
    (one,) = waiting(scheduler)
    return one


async def test_with_a_token_it_is_the_user_that_the_api_server_names(
    scheduler: Scheduler, kube: Kube, bus: Bus, tmp_path: Path
) -> None:
    """Not who the client says it is."""
    one = await offer(scheduler, kube)
    path, body = f"/approvals/{one['id']}", {"approved": True, "user": "somebody else"}
    async with asked("authenticated", scheduler, bus, tmp_path) as (client, api):
        async with client.post(path, json=body) as response:
            assert response.status == 401
        api.others = [KNOWN, DENIED]
        async with client.post(path, json=body, headers=TOKEN) as response:
            assert response.status == 403
            assert "may not post /approvals" in (await response.json())["error"]
        api.others = [KNOWN, ALLOWED]
        other = {"Authorization": "Bearer another-token"}
        named = {CALLER: "somebody else"}
        async with client.post(path, json=body, headers=other, params=named) as response:
            assert response.status == 200
    await approvals_of(scheduler).load()
    (one,) = waiting(scheduler)
    assert (one["answer"]["who"], one["answer"]["verified"]) == (USER["username"], True)


async def test_without_tokens_it_is_who_the_client_says(
    scheduler: Scheduler, kube: Kube, bus: Bus, tmp_path: Path
) -> None:
    one = await offer(scheduler, kube)
    path, named = f"/approvals/{one['id']}", {CALLER: "root"}
    async with (
        asked("open", scheduler, bus, tmp_path) as (client, _),
        client.post(path, json={"approved": False, "user": "ann"}, params=named) as response,
    ):
        answer = (await response.json())["answer"]
    assert (answer["who"], answer["verified"], answer["approved"]) == ("ann", False, False)


@pytest.mark.slow
async def test_the_commands_list_approve_and_reject(
    scheduler: Scheduler, kube: Kube, bus: Bus, tmp_path: Path
) -> None:
    one = await offer(scheduler, kube)
    async with asked("open", scheduler, bus, tmp_path) as (client, _):
        url = str(client._base_url)

        async def run(*words: str) -> tuple[int | None, str, str]:
            process = await asyncio.create_subprocess_exec(
                str(Path(sys.executable).with_name("dovetail")),
                *words,
                env={
                    **os.environ,
                    "DOVETAIL_SCHEDULER_URL": url,
                    "DOVETAIL_DIRECTORY": str(tmp_path),
                },
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            out, err = await process.communicate()
            return process.returncode, out.decode(), err.decode()

        code, listed, complaint = await run("approvals")
        assert (code, complaint) == (0, "")
        assert listed.startswith(f"{one['id']}  waiting, until ")
        assert "\n  - of-default m5.x004 on-demand\n" in listed
        code, _, complaint = await run("reject", "other")
        assert (code, "`dovetail approvals` lists them" in complaint) == (1, True)
        code, done, _ = await run("approve", one["id"], "--reason", "go")
        assert (code, f"approved as {getpass.getuser()}: {one['text']}" in done) == (0, True)
        code, _, complaint = await run("reject", one["id"])
        assert (code, "was approved by" in complaint) == (1, True)
        await scheduler.disruption.step()
        assert len(ended(scheduler)) == 1
        code, listed, _ = await run("approvals", "--ended")
        assert listed.startswith("no disruption command waits for approval\n")
        assert f"{one['id']}  started at " in listed
        assert f"  approved by {getpass.getuser()} at " in listed
