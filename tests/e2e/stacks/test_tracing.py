"""One trace from the pod that finds no place to the node that is ready, over all queues, in a collector."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from cli.demo import workload
from shared.domain import labels as keys
from shared.domain.pools.generations import V1
from tests.support.cluster.kubectl import NEEDS_KUBECTL
from tests.support.network.otlp_receiver import Received, Receiver, otlp_receiver
from tests.support.stories.playground import (
    Playground,
    ShellKubectl,
    playground_on,
    running_stack,
    until,
)
from tests.support.stories.scale_down import inflate, scale, seen, settled

pytestmark = [pytest.mark.e2e, NEEDS_KUBECTL, pytest.mark.nightly]
STORY = {
    "pod unschedulable": ("dovetail-watcher", ""),
    "handle PodUnschedulable": ("dovetail-scheduler", "pod unschedulable"),
    "plan": ("dovetail-scheduler", "handle PodUnschedulable"),
    "create machine": ("dovetail-scheduler", "plan"),
    "handle LaunchMachine": ("dovetail-launcher", "plan"),
    "CreateFleet": ("dovetail-launcher", "create machine"),
    "register node": ("dovetail-launcher", "create machine"),
    "node ready": ("dovetail-launcher", "create machine"),
}
"""Span -> its service, and the span above it."""
END = {
    "disrupt machine": ("dovetail-scheduler", ""),
    "handle TerminateMachine": ("dovetail-terminator", "disrupt machine"),
    "terminate machine": ("dovetail-terminator", "handle TerminateMachine"),
    "drain node": ("dovetail-terminator", "terminate machine"),
    "end instance": ("dovetail-terminator", "terminate machine"),
}


@asynccontextmanager
async def traced_stack(
    receiver: Receiver, factory: pytest.TempPathFactory
) -> AsyncIterator[Playground]:
    """A stack of its own. It starts and stops in a thread, because the collector runs on this loop."""
    running = running_stack(factory, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url)
    stack = await asyncio.to_thread(running.__enter__)
    try:
        async with playground_on(stack) as playground:
            yield playground
    finally:
        await asyncio.to_thread(running.__exit__, None, None, None)


async def test_a_pods_way_to_its_node_is_one_trace(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    async with otlp_receiver() as receiver, traced_stack(receiver, tmp_path_factory) as playground:
        kubectl = ShellKubectl(playground.stack)
        name = playground.environment.cluster_name
        await workload.apply_pool(playground.kube, name, 2, V1)
        await inflate(playground, kubectl, 2, keys.SPOT)
        await seen(playground, "the pods run", settled(2))
        (node,) = (await playground.look()).nodes
        await until(lambda: receiver.named("node ready"), "the last span is there")
        (ready,) = receiver.named("node ready")
        story = [span for span in receiver.spans if span.trace == ready.trace]
        await scale(kubectl, 0)
        await until(lambda: receiver.named("end instance"), "the empty node is gone")
        (gone,) = receiver.named("end instance")
        end = [span for span in receiver.spans if span.trace == gone.trace]
    check_story(story)
    assert places(end) == END
    by_name = {span.name: span for span in story}
    assert by_name["register node"].attributes["node"] == node.name
    instance = by_name["register node"].attributes["instance"]
    assert by_name["CreateFleet"].attributes["instances"] == [instance]
    assert gone.attributes["instance"] == instance
    assert by_name["plan"].attributes["pods"] == 2
    assert [span for span in receiver.spans if span.failed] == []


def places(story: list[Received]) -> dict[str, tuple[str, str]]:
    """Span -> its service, and the span above it."""
    by_id = {span.id: span for span in story}
    return {
        span.name: (span.service, by_id[span.parent].name if span.parent else "") for span in story
    }


def check_story(story: list[Received]) -> None:
    """Each span is there with its service and parent, and they follow each other."""
    assert places(story) == STORY
    first = {name: min(s.start for s in story if s.name == name) for name in STORY}
    order = ["pod unschedulable", "plan", "create machine", "CreateFleet"]
    assert sorted(order, key=first.__getitem__) == order
    ends = {name: max(s.end for s in story if s.name == name) for name in STORY}
    assert ends["CreateFleet"] <= ends["register node"] <= ends["node ready"]
