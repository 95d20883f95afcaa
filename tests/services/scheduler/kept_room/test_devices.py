"""A machine names the drivers whose devices its pods use, on real Redis and a real API server (DRA-07)."""

from __future__ import annotations

from typing import Any

import pytest

from shared.domain import labels as keys
from shared.kube.client import Kube
from tests.services.scheduler.conftest import Scheduler, machines, pool_of
from tests.support.planning.builders import make_pod
from tests.support.planning.devices import (
    GPU,
    GPU_CLASS,
    claiming_pod,
    gpus,
    make_claim_template,
    make_device_template,
    spec_of,
    want,
)


@pytest.fixture
def more_settings() -> dict[str, Any]:
    return {"ignore_dra_requests": False}


async def test_drivers_are_named_on_machines_for_devices_and_on_no_others(
    scheduler: Scheduler, kube: Kube
) -> None:
    cards = make_device_template("cards", ("m5.x128",), gpus(1))
    await scheduler.show(
        nodepools=[await pool_of(kube)],
        deviceclasses=[GPU_CLASS],
        devicetemplates=[cards],
        resourceclaimtemplates=[make_claim_template(spec_of(want()))],
        pods=[claiming_pod(cpu="1"), make_pod("other", cpu="128")],
    )
    await scheduler.plan()
    written = [one["metadata"]["annotations"] for one in await machines(kube)]
    named = [one.get(keys.DRA_DRIVERS_ANNOTATION) for one in written]
    assert sorted(named, key=str) == [None, GPU]
