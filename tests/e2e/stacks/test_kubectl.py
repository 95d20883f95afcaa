"""The workshop by hand: real kubectl against the local cluster, with nothing but ``.dovetail/env``."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.demo import workload
from tests.support.cluster.kubectl import NEEDS_KUBECTL
from tests.support.stories.playground import Playground, ShellKubectl, until

pytestmark = [
    pytest.mark.e2e,
    NEEDS_KUBECTL,
]
MANIFESTS = Path(workload.__file__).parent / "manifests"
LABELS = (
    "kubernetes.io/arch",
    "node.kubernetes.io/instance-type",
    "karpenter.sh/provisioner-name",
    "topology.kubernetes.io/zone",
    "karpenter.sh/capacity-type",
)
ADDED = ("-l", "karpenter.sh/provisioner-name")


async def test_the_workshop_by_hand(playground: Playground) -> None:
    kubectl = ShellKubectl(playground.stack)
    await kubectl("apply", "-f", str(MANIFESTS))
    await kubectl("patch", "provisioner", "default", "--type=merge", "-p", PATIENT)
    await kubectl("patch", "deployment", "inflate", "--type=merge", "-p", ON_SPOT)
    await kubectl("scale", "deployment", "inflate", "--replicas", "10")
    await kubectl("rollout", "status", "deployment/inflate", "--timeout=120s")
    node = await one_ready_node(kubectl)
    await assert_machine_columns(kubectl, node)
    await kubectl("delete", "node", node, "--wait=true", "--timeout=120s")
    assert node not in {row[0] for row in await kubectl.rows("nodes")}
    await kubectl("rollout", "status", "deployment/inflate", "--timeout=120s")
    assert await one_ready_node(kubectl) != node
    await kubectl("scale", "deployment", "inflate", "--replicas", "0")

    async def nothing_added() -> bool:
        return not await kubectl.rows("nodes", *ADDED) and not await kubectl.rows("machines")

    await until(nothing_added, "no added node and no Machine")


PATIENT = '{"spec": {"ttlSecondsAfterEmpty": 1}}'
ON_SPOT = """{"spec": {"template": {"spec": {
    "nodeSelector": {"karpenter.sh/capacity-type": "spot"}}}}}"""


async def one_ready_node(kubectl: ShellKubectl) -> str:
    """The name of the only added node, which shows a value for every label of the workshop."""

    async def ready() -> list[str] | None:
        rows = await kubectl.rows("nodes", *ADDED, "-L", ",".join(LABELS))
        return rows[0] if len(rows) == 1 and rows[0][1] == "Ready" else None

    row = await until(ready, "one ready node")
    assert row is not None
    arch, instance_type, pool, zone, capacity_type = row[-len(LABELS) :]
    assert arch in ("amd64", "arm64")
    assert "." in instance_type
    assert (pool, capacity_type) == ("default", "spot")
    assert zone.startswith("us-west-2")
    return row[0]


async def assert_machine_columns(kubectl: ShellKubectl, node: str) -> None:
    """Type, zone and node are filled, and Ready becomes True."""

    async def ready() -> dict[str, str] | None:
        heading, row = (line.split() for line in (await kubectl("get", "machines")).splitlines())
        shown = dict(zip(heading, row, strict=True))
        return shown if shown["READY"] == "True" else None

    shown = await until(ready, "a ready Machine")
    assert shown is not None
    assert list(shown) == ["NAME", "TYPE", "ZONE", "NODE", "READY", "AGE"]
    assert shown["NODE"] == node
    assert shown["ZONE"].startswith("us-west-2")
    assert "." in shown["TYPE"]
