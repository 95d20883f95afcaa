"""What the launcher does about a machine stands in the trace that created it, and says what failed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from services.launcher.launch.call_trace import by_trace
from services.launcher.ports import Ports
from services.launcher.service import Launcher
from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.kube.client import Kube
from shared.kube.resources import MACHINES
from shared.redis.bus import RetryLater
from tests.services.conftest import Control, create_machine, create_pool
from tests.support.network.recorded_spans import RecordedSpans, trace_of
from tests.support.planning.builders import ZONES, make_machine

NAME = "default-a"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = TRACE.replace("0af7", "1af7")


@pytest.fixture
def spans() -> RecordedSpans:
    return RecordedSpans()


@pytest.fixture
async def launch(
    start: Callable[[], Launcher], spans: RecordedSpans, kube: Kube
) -> Callable[[], Awaitable[None]]:
    """Launch a machine that a plan with a trace has created."""
    await create_pool(kube)
    await create_machine(kube, NAME)
    await kube.patch(MACHINES, NAME, {"metadata": {"annotations": {keys.TRACE_ANNOTATION: TRACE}}})
    launcher = start()
    launcher.ports.tracer = spans.tracer
    return lambda: launcher.launch.launch(NAME)


async def the_call(spans: RecordedSpans) -> Any:
    (call,) = [span for span in await spans.all() if span.name == "CreateFleet"]
    assert trace_of(call) == TRACE[3:35]
    return call


async def test_the_call_names_its_machines_and_instances(
    launch: Callable[[], Awaitable[None]], spans: RecordedSpans, control: Control
) -> None:
    await launch()
    call = await the_call(spans)
    (instance,) = control.instances()
    assert call.attributes["machines"] == (NAME,)
    assert call.attributes["pools"] == ("default",)
    assert call.attributes["instances"] == (instance["instanceId"],)
    assert call.status.is_ok or call.status.is_unset


async def test_a_call_without_capacity_failed_and_so_did_the_machine(
    launch: Callable[[], Awaitable[None]], spans: RecordedSpans, control: Control
) -> None:
    """LCH-64: with EC2's codes."""
    for name in ("m5.large", "m5.xlarge"):
        for zone in ZONES:
            control.post(
                "capacity", instanceType=name, zone=zone, capacityType="on-demand", available=0
            )
    await launch()
    (call, given_up) = await spans.all()
    assert (call.name, given_up.name) == ("CreateFleet", "give up machine")
    assert (call.attributes or {})["errors"] == ("InsufficientInstanceCapacity",)
    assert "InsufficientInstanceCapacity" in (call.status.description or "")
    assert (given_up.attributes or {})["reason"] == "insufficient_capacity"
    assert not given_up.status.is_ok


async def test_a_call_that_fails_as_a_whole_says_why(
    launch: Callable[[], Awaitable[None]], spans: RecordedSpans, control: Control
) -> None:
    control.post("faults", action="CreateFleet", code="RequestLimitExceeded", count=1)
    with pytest.raises(RetryLater):
        await launch()
    call = await the_call(spans)
    assert "RequestLimitExceeded" in call.status.description


def test_a_call_for_several_plans_stands_in_the_trace_of_each() -> None:
    def machine(name: str, trace: str) -> Machine:
        return make_machine(name, annotations={keys.TRACE_ANNOTATION: trace} if trace else {})

    found = by_trace(
        [machine("a", TRACE), machine("b", OTHER), machine("c", TRACE), machine("d", "")]
    )
    assert [[one.name for one in group] for group in found] == [["a", "c"], ["b"]]


def test_ports_trace_nothing_unless_a_tracer_is_given(ports: Ports) -> None:
    assert not ports.tracer.enabled
    assert replace(ports, tracer=RecordedSpans().tracer).tracer.enabled
