"""AWS settings in a Provisioner (T-13) live on as a node template of its own, on a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from services.watcher.status.inline_templates import KEPT, RECHECK_SECONDS, REMOVED, InlineTemplates
from shared.api.v1alpha5.provisioners import inline_template_name
from shared.kube.client import Kube
from shared.kube.recorder import Recorder
from shared.kube.resources import AWS_NODE_TEMPLATES, PROVISIONERS
from tests.support.clock.fake import FakeClock

DISCOVERY = {"karpenter.sh/discovery": "dovetail-local"}
IN_LINE = {"subnetSelector": DISCOVERY, "securityGroupSelector": DISCOVERY}
NAME = inline_template_name("web")


@pytest.fixture
def templates(kube: Kube, recorder: Recorder, clock: FakeClock) -> InlineTemplates:
    return InlineTemplates(kube, recorder, clock)


async def create(kube: Kube, **spec: Any) -> dict[str, Any]:
    said = {"provider": IN_LINE} | spec
    wanted = {name: value for name, value in said.items() if value is not None}
    return await kube.create(PROVISIONERS, {"metadata": {"name": "web"}, "spec": wanted})


async def change(kube: Kube, **spec: Any) -> dict[str, Any]:
    return await kube.patch(PROVISIONERS, "web", {"spec": spec})


async def template(kube: Kube) -> dict[str, Any]:
    return await kube.get(AWS_NODE_TEMPLATES, NAME)


async def exists(kube: Kube) -> bool:
    return bool((await kube.list(AWS_NODE_TEMPLATES)).items)


async def test_settings_in_line_become_a_template_that_belongs_to_the_provisioner(
    kube: Kube, templates: InlineTemplates, events: Callable[[], Any]
) -> None:
    provisioner = await create(kube)
    assert await templates.keep(provisioner) == ""
    made = await template(kube)
    assert made["spec"] == IN_LINE
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Provisioner", provisioner["metadata"]["uid"])
    assert (KEPT, "web") in await events()


async def test_the_template_follows_the_provisioner(kube: Kube, templates: InlineTemplates) -> None:
    await templates.keep(await create(kube, provider=IN_LINE | {"amiFamily": "Bottlerocket"}))
    changed = await change(kube, provider={"amiFamily": None, "instanceProfile": "nodes"})
    assert await templates.keep(changed) == ""
    assert (await template(kube))["spec"] == IN_LINE | {"instanceProfile": "nodes"}


async def test_a_template_that_is_in_order_is_not_written_again(
    kube: Kube, templates: InlineTemplates, clock: FakeClock
) -> None:
    provisioner = await create(kube)
    await templates.keep(provisioner)
    before = await template(kube)
    clock.advance(RECHECK_SECONDS)
    assert await templates.keep(provisioner) == ""
    assert await template(kube) == before


async def test_what_others_do_to_our_template_is_mended(
    kube: Kube, templates: InlineTemplates, clock: FakeClock
) -> None:
    provisioner = await create(kube)
    await templates.keep(provisioner)
    await kube.patch(
        AWS_NODE_TEMPLATES,
        NAME,
        {"metadata": {"labels": {"team": "web"}}, "spec": {"instanceProfile": "other"}},
    )
    clock.advance(RECHECK_SECONDS)
    await templates.keep(provisioner)
    mended = await template(kube)
    assert mended["spec"] == IN_LINE
    assert mended["metadata"]["labels"] == {"team": "web"}
    await kube.delete(AWS_NODE_TEMPLATES, NAME)
    clock.advance(RECHECK_SECONDS)
    await templates.keep(provisioner)
    assert await exists(kube)


async def test_a_template_of_somebody_else_is_left_alone(
    kube: Kube, templates: InlineTemplates
) -> None:
    body = {"metadata": {"name": NAME}, "spec": IN_LINE | {"instanceProfile": "mine"}}
    before = await kube.create(AWS_NODE_TEMPLATES, body)
    problem = await templates.keep(await create(kube))
    assert NAME in problem
    assert "providerRef" in problem
    assert await template(kube) == before
    await kube.delete(AWS_NODE_TEMPLATES, NAME)
    assert await templates.keep(await kube.get(PROVISIONERS, "web")) == ""


async def test_a_template_of_somebody_else_survives_the_switch_to_provider_ref(
    kube: Kube, templates: InlineTemplates
) -> None:
    before = await kube.create(AWS_NODE_TEMPLATES, {"metadata": {"name": NAME}, "spec": IN_LINE})
    assert await templates.keep(await create(kube, provider=None, providerRef={"name": NAME})) == ""
    assert await template(kube) == before


async def test_our_template_is_removed_when_the_provisioner_names_one(
    kube: Kube, templates: InlineTemplates, events: Callable[[], Any]
) -> None:
    await templates.keep(await create(kube))
    switched = await change(kube, provider=None, providerRef={"name": "other"})
    assert await templates.keep(switched) == ""
    assert not await exists(kube)
    assert (REMOVED, "web") in await events()


async def test_our_template_is_found_and_removed_after_a_restart(
    kube: Kube, templates: InlineTemplates, recorder: Recorder, clock: FakeClock
) -> None:
    await templates.keep(await create(kube))
    switched = await change(kube, provider=None, providerRef={"name": "other"})
    await InlineTemplates(kube, recorder, clock).keep(switched)
    assert not await exists(kube)


async def test_settings_in_line_that_are_no_object_remove_nothing(
    kube: Kube, templates: InlineTemplates
) -> None:
    """A slip of the pen is mended soon; machines keep their node class meanwhile."""
    provisioner = await create(kube)
    await templates.keep(provisioner)
    provisioner["spec"]["provider"] = "oops"
    provisioner["metadata"]["generation"] += 1
    assert await templates.keep(provisioner) == ""
    assert await exists(kube)


async def test_a_provisioner_on_its_way_out_gets_no_template(
    kube: Kube, templates: InlineTemplates
) -> None:
    provisioner = await create(kube)
    provisioner["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert await templates.keep(provisioner) == ""
    assert not await exists(kube)


async def test_a_provisioner_made_again_takes_over_the_template_of_its_predecessor(
    kube: Kube, templates: InlineTemplates
) -> None:
    provisioner = await create(kube)
    await templates.keep(provisioner)
    successor = {**provisioner, "metadata": {**provisioner["metadata"], "uid": "successor"}}
    assert await templates.keep(successor) == ""
    (owner,) = (await template(kube))["metadata"]["ownerReferences"]
    assert owner["uid"] == "successor"


async def test_a_template_that_is_being_deleted_is_waited_for(
    kube: Kube, templates: InlineTemplates, clock: FakeClock
) -> None:
    provisioner = await create(kube)
    await templates.keep(provisioner)
    held = {"metadata": {"finalizers": ["example.com/hold"]}}
    await kube.patch(AWS_NODE_TEMPLATES, NAME, held)
    await kube.delete(AWS_NODE_TEMPLATES, NAME)
    clock.advance(RECHECK_SECONDS)
    assert "being deleted" in await templates.keep(provisioner)
    await kube.patch(AWS_NODE_TEMPLATES, NAME, {"metadata": {"finalizers": None}})
    assert await templates.keep(provisioner) == ""
    assert "deletionTimestamp" not in (await template(kube))["metadata"]


async def test_a_template_that_the_server_refuses_is_a_fault_of_the_provisioner(
    kube: Kube, templates: InlineTemplates
) -> None:
    provisioner = await create(kube)
    provisioner["spec"]["provider"] = {"amiFamily": "Plan9"}
    assert "refused" in await templates.keep(provisioner)


async def test_two_watchers_at_once_make_one_template(
    kube: Kube, recorder: Recorder, clock: FakeClock
) -> None:
    """Compare-and-set: the second finds what the first made."""
    provisioner = await create(kube)
    both = [InlineTemplates(kube, recorder, clock) for _ in range(2)]
    assert await asyncio.gather(*(one.keep(provisioner) for one in both)) == ["", ""]
    assert (await template(kube))["spec"] == IN_LINE
