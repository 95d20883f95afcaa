"""Launch templates that are made once and go when nobody uses them (LCH-22, LCH-25, LCH-26)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from services.launcher.launch_template.controller import (
    HIDDEN_SECONDS,
    TEMPLATE_FRESH_SECONDS,
    TemplateStore,
    templates_of,
)
from services.launcher.ports import Ports
from shared.cloud.client.session import Cloud
from shared.cloud.ec2.launch_templates import CREATE_ATTEMPTS
from shared.errors import Unauthorized, Unavailable
from shared.kube.client import Kube
from shared.kube.resources import LAUNCH_RECORDS
from shared.redis.mirror.template_use import UNUSED_SECONDS, TemplateUse
from tests.services.conftest import CLUSTER, Control
from tests.support.clock.fake import FakeClock
from tests.support.redis.elapsing import elapse

DATA = {"ImageId": "ami-0123456789abcdef0"}
OWNED = {f"kubernetes.io/cluster/{CLUSTER}": "owned"}
NAME, OLD_NAME = "karpenter.k8s.aws/1", f"Karpenter-{CLUSTER}-1"
Start = Callable[[], TemplateStore]
Later = Callable[[float], Awaitable[None]]


@pytest.fixture
def start_store(ports: Ports) -> Start:
    """``start_store()``: a new incarnation, or another launcher."""
    use = TemplateUse(ports.bus.redis, ports.bus.prefix)
    return lambda: TemplateStore(ports, use)


@pytest.fixture
def later(ports: Ports, clock: FakeClock) -> Later:
    """``await later(seconds)``: so long afterwards, for launchers and in Redis."""

    async def wait(seconds: float) -> None:
        clock.advance(seconds)
        await elapse(ports.bus.redis, ports.bus.prefix, seconds)

    return wait


@pytest.fixture
def store(start_store: Start) -> TemplateStore:
    return start_store()


def calls(control: Control, action: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = control.get(f"calls?action={action}")["calls"]
    return found


async def names(cloud: Cloud) -> list[str]:
    return [template.name for template in await cloud.launch_templates.tagged(OWNED)]


async def test_a_template_is_made_once_whoever_asks(store: TemplateStore, control: Control) -> None:
    """LCH-20: a burst of launches makes one call; a minute's later use costs nothing either."""
    made = await asyncio.gather(*(store.ensure(NAME, DATA, OWNED) for _ in range(5)))
    assert len({template.id for template in made}) == 1
    assert len(calls(control, "CreateLaunchTemplate")) == 1


@pytest.mark.parametrize(
    ("name", "key"), [(NAME, "id"), (OLD_NAME, "launch-template-id")], ids=["v1", "v1alpha5"]
)
async def test_the_log_tells_each_new_template_in_the_words_of_its_generation(
    store: TemplateStore, name: str, key: str
) -> None:
    """LCH-26: the log line of a launch template; ACC-14: log lines of v0.24."""
    with capture_logs() as lines:
        for _ in range(2):
            made = await store.ensure(name, DATA, OWNED)
    told = [line for line in lines if line["event"] == "created launch template"]
    assert [(line["launch-template-name"], line[key]) for line in told] == [(name, made.id)]


async def test_a_template_that_nobody_uses_is_deleted_after_a_minute(
    store: TemplateStore, cloud: Cloud, later: Later
) -> None:
    """LCH-22: every use begins the minute anew."""
    await store.ensure(NAME, DATA, OWNED)
    await store.ensure(OLD_NAME, DATA, OWNED)
    await later(UNUSED_SECONDS - 1)
    await store.ensure(NAME, DATA, OWNED)
    await later(1)
    await store.sweep()
    assert await names(cloud) == [NAME]
    await later(UNUSED_SECONDS)
    await store.sweep()
    assert await names(cloud) == []


async def test_a_template_of_an_open_launch_stays(
    store: TemplateStore, kube: Kube, cloud: Cloud, later: Later
) -> None:
    """LCH-22: its CreateFleet may be sent again any time."""
    template = await store.ensure(NAME, DATA, OWNED)
    await kube.create(LAUNCH_RECORDS, record(template.id))
    for _ in range(3):
        await later(UNUSED_SECONDS)
        await store.sweep()
    assert await names(cloud) == [NAME]
    await kube.delete(LAUNCH_RECORDS, "lr-1")
    await later(UNUSED_SECONDS)
    await store.sweep()
    assert await names(cloud) == []


def record(template: str) -> dict[str, Any]:
    """A LaunchRecord whose request starts from this template."""
    specification = {"LaunchTemplateId": template, "Version": "1"}
    request = {"LaunchTemplateConfigs": [{"LaunchTemplateSpecification": specification}]}
    return {
        "metadata": {"name": "lr-1"},
        "spec": {
            "machines": [{"kind": "NodeClaim", "name": "a", "uid": "1"}],
            "clientToken": "lr-1",
            "attempt": 0,
            "request": request,
            "images": {},
            "epoch": 0,
            "createdAt": "2026-01-01T00:00:00Z",
        },
    }


def test_a_record_names_its_templates() -> None:
    assert templates_of(record("lt-1")) == {"lt-1"}
    assert templates_of({"spec": {}}) == frozenset()


async def test_what_another_launcher_uses_stays(
    start_store: Start, cloud: Cloud, later: Later
) -> None:
    """Two launchers know the same templates, and each sees only its own launches."""
    busy, idle = start_store(), start_store()
    await idle.ensure(NAME, DATA, OWNED)
    await later(UNUSED_SECONDS - 1)
    await busy.ensure(NAME, DATA, OWNED)
    await later(1)
    await idle.sweep()
    assert await names(cloud) == [NAME]


async def test_a_new_incarnation_takes_over_what_exists(
    start_store: Start, cloud: Cloud, control: Control, later: Later
) -> None:
    """LCH-22: found by their tags, used or deleted. Of others with the cluster's tag nothing is touched."""
    made = await start_store().ensure(NAME, DATA, OWNED)
    await start_store().ensure(OLD_NAME, DATA, OWNED)
    await cloud.launch_templates.ensure("eks-nodegroup", DATA, OWNED)
    store = start_store()
    await store.sweep()
    assert await store.ensure(NAME, DATA, OWNED) == made
    assert len(calls(control, "CreateLaunchTemplate")) == 3
    await later(UNUSED_SECONDS)
    await store.sweep()
    assert await names(cloud) == ["eks-nodegroup"]


async def test_many_templates_are_found(store: TemplateStore, cloud: Cloud) -> None:
    """A listing has pages."""
    wanted = [f"karpenter.k8s.aws/{number}" for number in range(20)]
    for name in wanted:
        await cloud.launch_templates.ensure(name, DATA, OWNED)
    assert await names(cloud) == sorted(wanted)


async def test_what_was_forgotten_is_made_again_and_still_swept(
    store: TemplateStore, cloud: Cloud, later: Later
) -> None:
    """LCH-25: a template that somebody deleted; none of the others is lost from sight."""
    first = await store.ensure(NAME, DATA, OWNED)
    await store.ensure(OLD_NAME, DATA, OWNED)
    await store.sweep()
    await cloud.launch_templates.delete(first)
    store.forget()
    assert (await store.ensure(NAME, DATA, OWNED)).id != first.id
    for _ in range(2):
        await store.sweep()
        await later(UNUSED_SECONDS)
    await store.sweep()
    assert await names(cloud) == []


async def test_an_old_memory_is_not_believed(
    store: TemplateStore, cloud: Cloud, later: Later
) -> None:
    """Another launcher may have deleted it by now."""
    first = await store.ensure(NAME, DATA, OWNED)
    await cloud.launch_templates.delete(first)
    await later(TEMPLATE_FRESH_SECONDS)
    assert (await store.ensure(NAME, DATA, OWNED)).id != first.id


async def test_a_refused_deletion_is_tried_again_and_stops_no_other(
    store: TemplateStore, cloud: Cloud, control: Control, later: Later
) -> None:
    for name in (NAME, OLD_NAME):
        await store.ensure(name, DATA, OWNED)
    await later(UNUSED_SECONDS)
    code = "UnauthorizedOperation"
    control.post("faults", action="DeleteLaunchTemplate", code=code, status=403)
    with pytest.raises(Unauthorized):
        await store.sweep()
    assert len(await names(cloud)) == 1
    await store.sweep()
    assert await names(cloud) == []


async def test_a_template_that_is_gone_in_between_is_made_anew(
    store: TemplateStore, control: Control
) -> None:
    """Two launchers at once: one finds the name taken, and then nothing by that name."""
    code = "InvalidLaunchTemplateName.AlreadyExistsException"
    control.post("faults", action="CreateLaunchTemplate", code=code, status=400)
    assert (await store.ensure(NAME, DATA, OWNED)).name == NAME


async def test_a_template_that_ec2_does_not_list_yet_is_not_asked_for_all_the_time(
    store: TemplateStore, control: Control, later: Later
) -> None:
    """EC2's lists may be minutes behind: every launch that needs the template asks, and each asked four times."""
    made = await store.ensure(NAME, DATA, OWNED)
    store.forget()
    control.post("settings", templateLagSeconds=600)
    for _ in range(5):
        with pytest.raises(Unavailable, match=NAME):
            await store.ensure(NAME, DATA, OWNED)
    assert len(calls(control, "CreateLaunchTemplate")) == 1 + CREATE_ATTEMPTS
    control.post("settings", templateLagSeconds=0)
    await later(HIDDEN_SECONDS)
    assert await store.ensure(NAME, DATA, OWNED) == made
