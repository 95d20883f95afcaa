"""Why a pod is pending, and which change would place it: ``POST /explain`` with a pod."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from shared.domain.expressions import Taint
from shared.domain.pools.generations import V1
from shared.redis.mirror import Position
from tests.services.scheduler.conftest import SOUND, Scheduler, hear
from tests.support.planning.builders import make_node_class, make_pod, make_pool

TAINT = Taint("example.com/gpu", "NoSchedule", "yes")


async def ask(scheduler: Scheduler, pod: str) -> tuple[int, Any]:
    found = await scheduler.parts.explainer.answer(orjson.dumps({"pod": pod}), {})
    return found.status, orjson.loads(found.body)


async def shown(scheduler: Scheduler, *pods: Any) -> None:
    """A tainted v1 pool and pods that wait."""
    await scheduler.show(
        nodepools=[make_pool(generation_api=V1, taints=(TAINT,))],
        nodeclasses=[make_node_class(generation_api=V1)],
        pods=pods,
    )


@pytest.mark.slow
async def test_the_smallest_change_of_a_pending_pod_is_told(scheduler: Scheduler) -> None:
    await shown(scheduler, make_pod("web"))
    status, found = await ask(scheduler, "default/web")
    assert (status, found["state"]) == (200, "pending")
    (change,) = found["changes"]
    assert (change["object"], change["field"]) == ("Pod default/web", "spec.tolerations")


async def test_an_unknown_pod_is_not_found(scheduler: Scheduler) -> None:
    await shown(scheduler, make_pod("web"))
    status, found = await ask(scheduler, "default/somebody")
    assert status == 404
    assert "somebody" in found["error"]


async def test_a_name_that_several_namespaces_have_needs_a_namespace(scheduler: Scheduler) -> None:
    await shown(scheduler, make_pod("web"), make_pod("web", namespace="shop", uid="other"))
    status, found = await ask(scheduler, "web")
    assert status == 400
    assert "shop/web" in found["error"]


async def test_without_a_sound_picture_of_the_cluster_nothing_is_claimed(
    scheduler: Scheduler,
) -> None:
    await shown(scheduler, make_pod("web"))
    await hear(scheduler, {**SOUND, "pods": Position(version="", sound=False, seconds=9.0)})
    status, found = await ask(scheduler, "default/web")
    assert status == 503
    assert "the watch of pods has been broken" in found["error"]


@pytest.mark.slow
async def test_one_question_at_a_time(scheduler: Scheduler) -> None:
    await shown(scheduler, make_pod("web"))
    first = asyncio.ensure_future(ask(scheduler, "default/web"))
    second = asyncio.ensure_future(ask(scheduler, "default/web"))
    assert sorted([(await first)[0], (await second)[0]]) == [200, 429]
