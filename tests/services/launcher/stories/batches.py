"""Three equal machines that are launched by one call, and the loss of its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from shared.concurrency.clock import parse_rfc3339, rfc3339
from shared.domain.nodes import provider_instance_id
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.resources import LAUNCH_RECORDS
from tests.services.conftest import Control, create_machine, create_pool
from tests.services.launcher.conftest import Launcher
from tests.services.launcher.mortal import Died

NAMES = ("a", "b", "c")


async def waiting_machines(kube: Kube) -> dict[str, str]:
    """Machines that wait; uid by name."""
    await create_pool(kube)
    return {name: (await create_machine(kube, name))["metadata"]["uid"] for name in NAMES}


async def launch_all(launcher: Launcher, names: Sequence[str] = NAMES) -> list[Any]:
    """What each caller got."""
    works = (launcher.launch.launch(name) for name in names)
    return await asyncio.gather(*works, return_exceptions=True)


def calls(control: Control) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = control.get("calls?action=CreateFleet")["calls"]
    return found


async def owners(kube: Kube) -> dict[str, str]:
    """Instance id by machine, of those that have one."""
    listed = await Machines(kube).list()
    return {m.name: provider_instance_id(m.provider_id) for m in listed if m.provider_id}


async def records(kube: Kube) -> list[dict[str, Any]]:
    return (await kube.list(LAUNCH_RECORDS)).items


async def lose_the_answer(launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """EC2 launches all, the launcher dies before it hears of it."""
    ec2 = launcher.launch.saga.ports.cloud.ec2
    create_fleet = ec2.create_fleet

    async def die(request: dict[str, Any]) -> None:
        await create_fleet(request)
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(ec2, "create_fleet", die)
        ended = await launch_all(launcher)
    assert all(isinstance(one, Died) for one in ended)


async def let_records_age(kube: Kube, seconds: float) -> None:
    """Let all records be older. Their age is a time of Redis' clock, which no test can move."""
    for record in await records(kube):
        at = rfc3339(parse_rfc3339(record["spec"]["createdAt"]) - seconds)
        await kube.patch(LAUNCH_RECORDS, record["metadata"]["name"], {"spec": {"createdAt": at}})
