"""What EC2 refused is remembered, shown, and outlives the services that saw it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from local.probe import request_json
from shared.domain import labels as keys
from tests.support.cluster.kubectl import NEEDS_KUBECTL
from tests.support.stories.playground import Playground, ShellKubectl, until
from tests.support.stories.scale_down import Pool, family

pytestmark = [pytest.mark.e2e, pytest.mark.nightly, NEEDS_KUBECTL]
TYPE, ZONE = "c6a.large", "us-west-2a"
REFUSED = f"on-demand:{TYPE}:{ZONE}"


async def test_a_refusal_outlives_the_services_and_shows_in_status_and_explain(
    playground: Playground, kubectl: ShellKubectl
) -> None:
    """EC2 has none of the cheapest type in the pool's zone; the pod runs on another, and the next round knows why."""
    control = f"{playground.environment.aws_endpoint_url}/_dovetail/capacity"
    short = {"instanceType": TYPE, "zone": ZONE, "capacityType": "on-demand"}
    await asyncio.to_thread(request_json, control, body={**short, "available": 0})
    try:
        pool = Pool(playground, kubectl, "NodePool", "scarce")
        await pool.apply_class()
        zone = {"key": keys.ZONE, "operator": "In", "values": [ZONE]}
        await pool.apply([*family("c6a"), zone])
        await pool.run(1)
        await until(lambda: shown(playground, REFUSED), "the refusal is in /status")
        await playground.restart_services()
        await pool.scale(2)
        await until(lambda: shown(playground, REFUSED), "and after a restart of all services")
        url = f"{playground.environment.services['scheduler']}/explain/pools/scarce"
        found = (await asyncio.to_thread(request_json, url))["shortages"]
        assert (TYPE, ZONE) in {(one["instanceType"], one["zone"]) for one in found}
    finally:
        await asyncio.to_thread(request_json, control, body={**short, "available": None})


async def shown(playground: Playground, offering: str) -> bool:
    """Does the scheduler's /status name it?"""
    url = f"{playground.environment.services['scheduler']}/status"
    status: dict[str, Any] = await asyncio.to_thread(request_json, url)
    return offering in {one["offering"] for one in status["shortages"]["worst"]}
