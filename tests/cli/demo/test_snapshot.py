"""What the demo sees in raw objects, and what it says has changed."""

from typing import Any

from cli.cloud.emulator import InstanceView
from cli.demo.snapshot import Snapshot, build_snapshot, changes


def pod(
    name: str, node: str = "", phase: str = "Pending", *, leaving: bool = False
) -> dict[str, Any]:
    metadata = {"name": name} | ({"deletionTimestamp": "2026-01-01T00:00:00Z"} if leaving else {})
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase}}


MACHINE = {
    "metadata": {
        "name": "default-1",
        "annotations": {"dovetail.sh/price-micro-usd-per-hour": "123456"},
    },
    "status": {
        "providerID": "aws:///us-west-2a/i-1",
        "conditions": [
            {"type": "MachineLaunched", "status": "True"},
            {"type": "MachineRegistered", "status": "False"},
        ],
    },
}
NODE = {
    "metadata": {
        "name": "ip-1",
        "labels": {
            "node.kubernetes.io/instance-type": "m5.16xlarge",
            "topology.kubernetes.io/zone": "us-west-2a",
            "karpenter.sh/capacity-type": "spot",
        },
    },
    "spec": {"providerID": "aws:///us-west-2a/i-1"},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}
INSTANCE = InstanceView("i-1", "m5.16xlarge", "us-west-2a", "running")


def test_a_node_gets_its_price_from_the_machine_with_its_provider_id() -> None:
    """M-06: the join key is the provider id, not a name."""
    pods = [pod("a", "ip-1", "Running"), pod("b", "ip-1"), pod("c")]
    snapshot = build_snapshot(pods, [MACHINE], [NODE], [INSTANCE])
    (node,) = snapshot.nodes
    assert (node.price_per_hour, node.pods, node.ready) == (0.123456, 1, True)
    assert (node.instance_type, node.zone) == ("m5.16xlarge", "us-west-2a")
    assert (snapshot.total, snapshot.running, snapshot.pending) == (3, 1, 2)
    assert snapshot.machines[0].reached == {"Launched"}


def test_a_pod_that_is_being_deleted_counts_no_more() -> None:
    snapshot = build_snapshot([pod("a", "ip-1", "Running", leaving=True)], [], [], [])
    assert (snapshot.total, snapshot.running) == (0, 0)
    assert len(snapshot.pods) == 1


def test_changes_tell_the_story_in_causal_order() -> None:
    after = build_snapshot([pod("a", "ip-1", "Running")], [MACHINE], [NODE], [INSTANCE])
    assert list(changes(Snapshot(), after)) == [
        ("1 pods exist", "deployment/inflate"),
        ("Machine created", "machine/default-1"),
        ("MachineLaunched", "machine/default-1"),
        ("instance running (m5.16xlarge, us-west-2a)", "instance/i-1"),
        ("node joined", "node/ip-1"),
        ("node ready", "node/ip-1"),
        ("1 of 1 pods run", "deployment/inflate"),
        ("machines cost $0.1235 an hour", "cluster/machines"),
    ]
    assert list(changes(after, after)) == []
    assert [event for event, _ in changes(after, Snapshot())] == [
        "0 pods exist",
        "Machine gone",
        "node gone",
        "0 of 0 pods run",
        "machines cost $0.0000 an hour",
    ]


def test_objects_without_status_or_labels_read_as_empty() -> None:
    snapshot = build_snapshot(
        [{"metadata": {"name": "a"}}],
        [{"metadata": {"name": "m"}}],
        [{"metadata": {"name": "n"}}],
        [],
    )
    assert snapshot.pending == 1
    assert snapshot.nodes[0].price_per_hour is None
