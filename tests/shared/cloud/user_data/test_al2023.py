"""Amazon Linux 2023 (LCH-32), EC-10."""

from __future__ import annotations

from shared.cloud.user_data.rendering import render
from tests.support.aws.boot_data import bootstrap, node_config, parts


def test_nodeadm_gets_a_node_config() -> None:
    """LCH-32: ours comes last and wins."""
    text = render(
        "AL2023",
        bootstrap(
            cluster_dns="10.100.0.10",
            service_cidr="10.100.0.0/16",
            labels={"a": "b"},
            taints=[("t", "", "NoExecute"), ("u", "v", "NoSchedule")],
            max_pods=29,
            kubelet={"podsPerCore": 2, "clusterDNS": ["10.9.0.10", "10.9.0.11"], "maxPods": None},
            raid0_instance_store=True,
            user_data="apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n",
        ),
    )
    assert [part.get_content_type() for part in parts(text)] == ["application/node.eks.aws"] * 2
    assert node_config(text) == {
        "cluster": {
            "name": "demo",
            "apiServerEndpoint": "https://demo.example",
            "certificateAuthority": "Q0E=",
            "cidr": "10.100.0.0/16",
        },
        "kubelet": {
            "config": {
                "podsPerCore": 2,
                "clusterDNS": ["10.9.0.10", "10.9.0.11"],
                "maxPods": 29,
                "registerWithTaints": [
                    {"key": "t", "effect": "NoExecute"},
                    {"key": "u", "value": "v", "effect": "NoSchedule"},
                ],
            },
            "flags": ["--node-labels=a=b"],
        },
        "instance": {"localStorage": {"strategy": "RAID0"}},
    }


def test_every_kubelet_setting_is_passed_on() -> None:
    """EC-10: the usual ones and any other that KubeletConfiguration has."""
    kubelet = {
        "systemReserved": {"cpu": "100m"},
        "kubeReserved": {"cpu": "100m"},
        "evictionHard": {"memory.available": "5%"},
        "evictionSoft": {"memory.available": "10%"},
        "evictionSoftGracePeriod": {"memory.available": "1m"},
        "evictionMaxPodGracePeriod": 60,
        "imageGCHighThresholdPercent": 85,
        "imageGCLowThresholdPercent": 80,
        "cpuCFSQuota": False,
        "topologyManagerPolicy": "best-effort",
        "featureGates": {"SomeGate": True},
    }
    assert node_config(render("AL2023", bootstrap(kubelet=kubelet)))["kubelet"]["config"] == kubelet


def test_the_clusters_dns_is_the_usual_one() -> None:
    """LCH-40: endpoint, certificate and DNS of the cluster."""
    text = render("AL2023", bootstrap(cluster_dns="fd00::a"))
    assert node_config(text)["kubelet"]["config"] == {"clusterDNS": ["fd00::a"]}


def test_what_is_no_setting_of_the_kubelet_is_left_out() -> None:
    """P-20: containerRuntime is bootstrap.sh's; nodeadm refuses unknown fields."""
    text = render("AL2023", bootstrap(kubelet={"containerRuntime": "containerd"}))
    assert node_config(text)["kubelet"] == {"config": {}, "flags": []}
