"""What every node must know (LCH-37, LCH-38, LCH-40)."""

from __future__ import annotations

from shared.cloud.user_data.bootstrap import boot_taints, kubelet_labels
from tests.support.aws.boot_data import bootstrap


def test_labels_a_kubelet_may_not_set_are_left_to_the_controller() -> None:
    """LCH-37: labels that the kubelet may set."""
    allowed = {
        "team": "a",
        "example.com/x": "1",
        "karpenter.sh/capacity-type": "spot",
        "node.kubernetes.io/instance-type": "m5.large",
        "my.node.kubernetes.io/x": "1",
        "topology.kubernetes.io/zone": "a",
        "kubernetes.io/arch": "amd64",
    }
    refused = {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "x", "k8s.io/y": "z"}
    assert kubelet_labels(allowed | refused) == dict(sorted(allowed.items()))


def test_machines_boot_with_the_unregistered_taint() -> None:
    """LCH-38: taints at boot."""
    one = ("a", "b", "NoSchedule")
    assert boot_taints([one], [one]) == (one, ("karpenter.sh/unregistered", "", "NoExecute"))


def test_the_clusters_dns_is_taken_where_the_settings_name_none() -> None:
    """LCH-40: endpoint, certificate and DNS of the cluster."""
    own = bootstrap(cluster_dns="10.100.0.10", kubelet={"clusterDNS": ["10.9.0.1", "10.9.0.2"]})
    assert own.dns_addresses == ["10.9.0.1", "10.9.0.2"]
    assert bootstrap(cluster_dns="10.100.0.10", kubelet={"clusterDNS": []}).dns_addresses == [
        "10.100.0.10"
    ]
    assert bootstrap().dns_addresses == []
