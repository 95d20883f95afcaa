"""What the scheduler did to Machines counts at once (BAT-05, EXE-08)."""

from __future__ import annotations

from random import Random
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from shared.api.v1alpha5.machines import parse_machine
from shared.errors import Unavailable
from shared.kube.client import Kube
from shared.kube.lease import Lease
from shared.kube.recorder import Recorder
from shared.kube.resources import Resource
from shared.runtime.leadership import Leadership
from tests.services.conftest import create_machine, written_events
from tests.services.scheduler.conftest import Later, Scheduler, machines, pool_of
from tests.support.planning.builders import make_pod

ADMISSION = "admissionregistration.k8s.io"
POLICIES = Resource(
    ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", False
)
BINDINGS = Resource(
    ADMISSION, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", False
)


def follow(scheduler: Scheduler, kube: Kube) -> None:
    """Another scheduler leads: the Lease of this one is not held any more."""
    clock = scheduler.commands.clock
    lease = Lease(kube, "scheduler", "dovetail", "former", clock, Random(1))
    scheduler.parts.actions.leadership = Leadership(lease, clock)


async def test_a_former_leader_deletes_no_machine(scheduler: Scheduler, kube: Kube) -> None:
    # F14: it may have been stopped between its decision and the write.
    machine = parse_machine(await create_machine(kube))
    follow(scheduler, kube)
    with pytest.raises(Unavailable, match="another scheduler may lead"):
        await scheduler.parts.actions.delete(machine)
    assert [one["metadata"]["uid"] for one in await machines(kube)] == [machine.uid]


async def test_a_refused_machine_is_an_event_of_its_pool_once(
    scheduler: Scheduler, kube: Kube, recorder: Recorder
) -> None:
    """SCH-112: each round plans the same again; the pool says what the cluster's policy asks for."""
    await forbid_machines(kube)
    await scheduler.show(nodepools=[await pool_of(kube)], pods=[make_pod("web")])
    await scheduler.plan()
    await scheduler.plan("again")
    assert await machines(kube) == []
    (event,) = [e for e in await written_events(kube, recorder) if e["reason"] == "MachineRefused"]
    assert event["involvedObject"]["kind"] == "Provisioner"
    assert event["message"].startswith("no Machine of it can be created: ")
    assert "every machine needs a cost centre" in event["message"]


@pytest.mark.slow
async def test_explain_says_the_refusal_until_a_machine_is_made(
    scheduler: Scheduler, kube: Kube
) -> None:
    await forbid_machines(kube)
    await scheduler.show(nodepools=[await pool_of(kube)], pods=[make_pod("web")])
    await scheduler.plan()
    pod, pool = await explained(scheduler, pod="web"), await explained(scheduler, pool="default")
    assert pod["state"] == "pending"
    assert pod["verdict"].startswith("Provisioner/default would place it, but no Machine of it can")
    for text in (pod["verdict"], *pool["problems"]):
        assert "every machine needs a cost centre" in text
    await kube.delete(BINDINGS, "cost")
    await scheduler.plan("again")
    assert len(await machines(kube)) == 1
    assert (await explained(scheduler, pool="default"))["problems"] == []


async def explained(scheduler: Scheduler, **question: str) -> dict[str, Any]:
    found = await scheduler.parts.explainer.answer(b"", question)
    document: dict[str, Any] = orjson.loads(found.body)
    return document


async def forbid_machines(kube: Kube) -> None:
    """As a company's own admission policy does."""
    rule = {
        "apiGroups": ["karpenter.sh"],
        "apiVersions": ["*"],
        "operations": ["CREATE"],
        "resources": ["machines"],
    }
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "false", "message": "every machine needs a cost centre"}],
    }
    await kube.create(POLICIES, {"metadata": {"name": "cost"}, "spec": spec})
    bound = {"policyName": "cost", "validationActions": ["Deny"]}
    await kube.create(BINDINGS, {"metadata": {"name": "cost"}, "spec": bound})


async def test_a_former_leader_makes_no_machine(scheduler: Scheduler, kube: Kube) -> None:
    await scheduler.show(nodepools=[await pool_of(kube)], pods=[make_pod("web")])
    follow(scheduler, kube)
    await scheduler.plan()
    assert await machines(kube) == []


async def test_a_deleted_machine_is_busy_until_the_mirror_shows_it(
    scheduler: Scheduler, kube: Kube
) -> None:
    """A budget must not be spent twice because the mirror stands still."""
    raw = await create_machine(kube)
    machine, commands = parse_machine(raw), scheduler.commands
    await scheduler.show(machines=[machine])
    assert await scheduler.parts.actions.delete(machine)
    commands.clock = Later(commands.clock, 1000.0)
    assert commands.busy() == {machine.uid}
    await scheduler.show(machines=[replace(machine, terminating=True)])
    assert commands.busy() == set()
