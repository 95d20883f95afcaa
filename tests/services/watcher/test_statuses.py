"""What the watcher writes to Provisioners: verdict and usage, on a real API server (P-13, F27)."""

from __future__ import annotations

from typing import Any

import pytest

from services.watcher.journal import Journal
from services.watcher.records import KINDS
from services.watcher.usage import Usage
from services.watcher.verdicts import Verdicts
from shared.bus import Bus
from shared.clock import SystemClock
from shared.kube.client import Kube
from shared.kube.recorder import Recorder
from shared.kube.resources import PROVISIONERS
from shared.mirror import MirrorWriter
from tests.services.conftest import create_pool
from tests.support.builders import make_machine
from tests.support.fake_clock import FakeClock

KIND = {kind.name: kind for kind in KINDS}


@pytest.fixture
def journal(bus: Bus) -> Journal:
    return Journal(MirrorWriter(bus.redis, bus.prefix, epoch="a"), bus, SystemClock())


async def judge(verdicts: Verdicts, kube: Kube, journal: Journal) -> dict[str, Any]:
    """As the informer does; the pool afterwards."""
    raw = await kube.get(PROVISIONERS, "default")
    converted = KIND["nodepools"].convert(raw)
    journal.note(KIND["nodepools"], raw, converted.record)
    await verdicts.tell("nodepools", PROVISIONERS, raw, converted.faults)
    return await kube.get(PROVISIONERS, "default")


async def test_a_faulty_pool_says_so_until_it_is_mended(
    kube: Kube, journal: Journal, recorder: Recorder, clock: FakeClock, events: Any
) -> None:
    """F27: a condition with every fault and an event; mended, it is active again."""
    verdicts = Verdicts(kube, recorder, clock)
    near = {"key": "team", "operator": "Near"}
    await create_pool(kube, requirements=[near])
    pool = await judge(verdicts, kube, journal)
    (condition,) = pool["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Active", "False")
    assert "spec.requirements[0].operator" in condition["message"]
    assert journal.records["nodepools"] == {}, "nothing is planned with it"
    again = await judge(verdicts, kube, journal)
    assert again == pool, "said once is enough"
    await kube.patch(PROVISIONERS, "default", {"spec": {"requirements": []}})
    pool = await judge(verdicts, kube, journal)
    assert pool["status"]["conditions"][0]["status"] == "True"
    assert set(journal.records["nodepools"]) == {"default"}
    assert await events() == [("ValidationFailed", "default")]


async def test_a_pool_shows_the_capacity_of_its_machines(
    kube: Kube, journal: Journal, recorder: Recorder, clock: FakeClock
) -> None:
    """P-13: a resource that is no longer there is zero; an unchanged sum is not written."""
    verdicts, usage = Verdicts(kube, recorder, clock), Usage(kube, journal)
    await create_pool(kube)
    await judge(verdicts, kube, journal)
    machine = make_machine("m", capacity={"cpu": 4000, "memory": 16 * 1024**3})
    meta = {"metadata": {"name": "m"}}
    journal.note(KIND["machines"], meta, machine)
    await usage.refresh()
    pool = await judge(verdicts, kube, journal)
    assert pool["status"]["resources"] == {"cpu": "4", "memory": "16Gi"}
    await usage.refresh()
    assert await kube.get(PROVISIONERS, "default") == pool
    journal.note(KIND["machines"], meta, None)
    await usage.refresh()
    pool = await judge(verdicts, kube, journal)
    assert pool["status"]["resources"] == {"cpu": "0", "memory": "0"}
    await usage.refresh()
    assert await kube.get(PROVISIONERS, "default") == pool
