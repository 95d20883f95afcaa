"""The instance's own metadata as a source, by the emulator's metadata service (INT-40, INT-41)."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from services.interruption.notices.backlog import Backlog
from services.interruption.notices.notice import NoticeKind
from services.interruption.self_managed_nodes.imds_documents import REBALANCE_AT, SCHEDULED_EVENTS
from services.interruption.self_managed_nodes.imds_source import (
    WAITING_SECONDS,
    Imds,
    ImdsSource,
    OwnNode,
)
from shared.concurrency.clock import SystemClock
from shared.errors import DovetailError, Unauthorized, Unavailable, Unreachable
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.resources import NODE_CLAIMS, NODES
from shared.metrics import Metrics
from shared.settings import InterruptionSettings, read
from tests.services.conftest import CLUSTER, Control, create_node, create_node_claim
from tests.support.clock.fake import FakeClock
from tests.support.waiting import wait_until


@pytest.fixture
async def source(
    kube: Kube, instance: str, aws_emulator_url: str, metrics: Metrics, clock: FakeClock
) -> AsyncIterator[ImdsSource]:
    """An agent on the node of a NodeClaim; the metadata service has a clock of its own."""
    claim = await create_node_claim(kube, "default-c")
    await create_node(kube, f"aws:///us-west-2a/{instance}", name="node-1")
    owner = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": "default-c"}
    owners = [{**owner, "uid": claim["metadata"]["uid"]}]
    await kube.patch(NODES, "node-1", {"metadata": {"ownerReferences": owners}})
    settings = read(
        InterruptionSettings, cluster_name=CLUSTER, aws_region="us-west-2", node_name="node-1"
    )
    imds = Imds(f"{aws_emulator_url}/_dovetail/imds/{instance}", SystemClock())
    own = OwnNode(kube, Machines(kube))
    yield ImdsSource(settings, imds, Backlog(), own, clock, random.Random(1), metrics)
    await imds.close()


async def heard(source: ImdsSource) -> list[Any]:
    """One look; the entries that it put."""
    await source.check()
    return [await source.backlog.take(lambda: 0.0) for _ in range(len(source.backlog))]


async def test_everything_that_is_announced_becomes_a_notice_once(
    source: ImdsSource, control: Control, instance: str
) -> None:
    assert await heard(source) == []
    assert (source.own.instance, source.own.name) == (instance, "node-1")
    for kind in ("spot", "rebalance", "health"):
        control.post("interruptions", kind=kind, instanceId=instance)
    found = await heard(source)
    assert [entry.notice.kind for entry in found] == [
        NoticeKind.SPOT, NoticeKind.SCHEDULED, NoticeKind.REBALANCE,
    ]  # fmt: skip
    assert {entry.notice.instances for entry in found} == {(instance,)}
    for entry in found:
        entry.done()
    assert await heard(source) == []


async def test_what_the_auto_scaling_group_wants_is_read_once_it_is_asked_for(
    source: ImdsSource, control: Control, instance: str
) -> None:
    """INT-41: off by default."""
    control.post("lifecycle", instanceId=instance, targetLifecycleState="Terminated")
    assert await heard(source) == []
    source.settings = read(
        InterruptionSettings, cluster_name=CLUSTER, aws_region="us-west-2", node_name="node-1",
        lifecycle_hooks="drain",
    )  # fmt: skip
    (entry,) = await heard(source)
    assert entry.notice.kind == NoticeKind.LIFECYCLE
    entry.done()
    assert await heard(source) == []


async def test_what_was_not_handled_comes_again(
    source: ImdsSource, control: Control, instance: str, clock: FakeClock
) -> None:
    control.post("interruptions", kind="spot", instanceId=instance)
    assert len(await heard(source)) == 1
    assert await heard(source) == []
    clock.advance(21)
    (again,) = await heard(source)
    again.done()
    clock.advance(3600)
    assert await heard(source) == []


async def test_a_scheduled_event_is_asked_about_until_it_is_due_and_called_off_when_it_is_gone(
    source: ImdsSource, control: Control, instance: str, clock: FakeClock, kube: Kube
) -> None:
    """The lead time is the worker's to know; what it wrote on the machine is found when the event is gone."""
    control.post("statuses", instanceId=instance, event="instance-reboot", eventInSeconds=7200)
    (entry,) = await heard(source)
    entry.done()
    clock.advance(WAITING_SECONDS + 1)
    (entry,) = await heard(source)
    text = f"2027-01-27T06:00:00Z imds {entry.notice.event}"
    note = {"metadata": {"annotations": {"dovetail.sh/maintenance": text}}}
    await kube.patch(NODE_CLAIMS, "default-c", note)
    control.post("statuses", instanceId=instance)
    (over,) = await heard(source)
    assert over.notice.kind == NoticeKind.SCHEDULED_OVER
    assert over.notice.event == entry.notice.event


class Patchy(Imds):
    """A metadata service of which one document cannot be had, or not be read."""

    spoiled = REBALANCE_AT
    text = ""
    asked = 0

    async def get(self, path: str) -> str | None:
        if path != self.spoiled:
            return await super().get(path)
        self.asked += 1
        if not self.text:
            raise Unavailable(f"the metadata service answers {path} with 500")
        return self.text


@pytest.mark.parametrize("text", ["", "<html>"])
@pytest.mark.parametrize("spoiled", [REBALANCE_AT, SCHEDULED_EVENTS])
async def test_one_document_that_cannot_be_had_hides_no_other(
    source: ImdsSource, control: Control, instance: str, spoiled: str, text: str
) -> None:
    """A spot notice counts two minutes; and what was handled is not forgotten."""
    control.post("interruptions", kind="spot", instanceId=instance)
    (spot,) = await heard(source)
    spot.done()
    control.post("statuses", instanceId=instance, event="instance-reboot", eventInSeconds=7200)
    control.post("interruptions", kind="rebalance", instanceId=instance)
    source.imds = patchy = Patchy(source.imds.endpoint, source.imds.clock)
    patchy.spoiled, patchy.text = spoiled, text
    with pytest.raises(DovetailError):
        await source.check()
    (entry,) = [await source.backlog.take(lambda: 0.0) for _ in range(len(source.backlog))]
    assert entry.notice.kind == (
        NoticeKind.SCHEDULED if spoiled == REBALANCE_AT else NoticeKind.REBALANCE
    )
    await patchy.close()


async def test_a_document_that_nobody_can_read_is_said_once_and_slows_nothing(
    source: ImdsSource, instance: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source.settings = source.settings.model_copy(update={"imds_period": 0.01})
    source.imds = patchy = Patchy(source.imds.endpoint, source.imds.clock)
    patchy.text = "<html>"
    stop = asyncio.Event()
    running = asyncio.create_task(source.run(stop))
    await wait_until(lambda: patchy.asked >= 5, "it looks on")
    stop.set()
    await running
    assert "not JSON" in source.problem
    assert capsys.readouterr().out.count("cannot read the instance metadata") == 1
    await patchy.close()


async def test_a_token_that_ran_out_is_fetched_again(source: ImdsSource) -> None:
    source.imds._token, source.imds._until = "long gone", float("inf")
    assert await source.imds.get("meta-data/instance-id")
    assert source.imds._token != "long gone"


async def test_a_service_that_is_off_or_away_is_said(source: ImdsSource) -> None:
    source.imds.endpoint = "http://127.0.0.1:9"
    with pytest.raises(Unreachable, match="IMDS_ENDPOINT"):
        await source.imds.get("meta-data/instance-id")


async def test_the_agent_speaks_for_its_own_machine_only(
    source: ImdsSource, instance: str, kube: Kube
) -> None:
    """INT-07. A node that is not registered yet may still become ours: the notice comes again."""
    await source.check()
    own = source.own
    machine = await own.machine(instance)
    assert machine is not None
    assert machine.key == "NodeClaim/default-c"
    assert own.node(instance) is not None
    assert await own.machine("i-other") is None
    assert own.node("i-other") is None
    taint = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}
    await kube.patch(NODES, "node-1", {"spec": {"taints": [taint]}})
    with pytest.raises(Unavailable):
        await own.machine(instance)


def test_a_refusal_names_the_option() -> None:
    from services.interruption.self_managed_nodes.imds_source import _fault

    assert isinstance(_fault("api/token", 403), Unauthorized)
    assert "HttpEndpoint" in json.dumps(str(_fault("api/token", 403)))
