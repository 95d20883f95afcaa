"""Objects of v1beta1 as users wrote them: any that a v1beta1 API server would have accepted."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

names = st.from_regex(r"[a-z]([a-z0-9]{0,5}[a-z0-9])?", fullmatch=True)
durations = st.sampled_from(["30s", "5m", "720h", "Never"])
KUBELET: dict[str, Any] = {
    "maxPods": 42,
    "clusterDNS": ["10.0.0.10"],
    "systemReserved": {"cpu": "100m"},
    "evictionSoft": {"memory.available": "5%"},
    "evictionSoftGracePeriod": {"memory.available": "1m"},
    "cpuCFSQuota": False,
}
kubelets = st.dictionaries(
    st.sampled_from(["maxPods", "podsPerCore", "evictionMaxPodGracePeriod"]),
    st.integers(0, 200),
    min_size=1,
)
taints = st.lists(
    st.builds(
        lambda key, effect, value: {"key": key, "effect": effect, **value},
        names,
        st.sampled_from(["NoSchedule", "NoExecute"]),
        st.just({}) | st.builds(lambda value: {"value": value}, names),
    ),
    max_size=2,
    unique_by=lambda one: (one["key"], one["effect"]),
)
startup_taints = st.sampled_from([[], [{"key": "example.com/agent", "effect": "NoSchedule"}]])
requirements = st.lists(
    st.builds(
        lambda key, values: {"key": key, "operator": "In", "values": values},
        names,
        st.lists(names, min_size=1, max_size=3),
    ),
    max_size=3,
)
references = st.builds(
    lambda name, rest: {"name": name, **rest},
    names,
    st.sampled_from(
        [
            {},
            {"kind": "EC2NodeClass"},
            {"kind": "EC2NodeClass", "apiVersion": "karpenter.k8s.aws/v1beta1"},
        ]
    ),
)
budgets = st.lists(
    st.sampled_from(
        [
            {"nodes": "10%"},
            {"nodes": "5"},
            {"schedule": "0 9 * * *", "duration": "8h", "nodes": "0"},
        ]
    ),
    max_size=3,
)
disruptions = st.fixed_dictionaries(
    {"consolidationPolicy": st.just("WhenEmpty"), "consolidateAfter": durations},
    optional={"expireAfter": durations, "budgets": budgets},
) | st.fixed_dictionaries(
    {},
    optional={
        "consolidationPolicy": st.just("WhenUnderutilized"),
        "consolidateAfter": st.just("Never"),
        "expireAfter": durations,
        "budgets": budgets,
    },
)
machine_specs = st.fixed_dictionaries(
    {"requirements": requirements, "nodeClassRef": references},
    optional={"taints": taints, "kubelet": kubelets, "startupTaints": startup_taints},
)


def _pool(name: str, spec: dict[str, Any], machine: dict[str, Any], labels: Any) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.sh/v1beta1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {**spec, "template": {"metadata": {"labels": labels}, "spec": machine}},
    }


node_pools = st.builds(
    _pool,
    names,
    st.fixed_dictionaries(
        {},
        optional={
            "disruption": disruptions,
            "weight": st.integers(1, 100),
            "limits": st.fixed_dictionaries({}, optional={"cpu": st.just("1k"), "memory": st.just("1Ti")}),
        },
    ),
    machine_specs,
    st.dictionaries(names, names, max_size=2),
)  # fmt: skip
node_claims = st.builds(
    lambda name, spec, pool: {
        "apiVersion": "karpenter.sh/v1beta1",
        "kind": "NodeClaim",
        "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": pool}},
        "spec": {**spec, "resources": {"requests": {"cpu": "1"}}},
    },
    names,
    machine_specs,
    names,
)
node_classes = st.builds(
    lambda name, spec, family: {
        "apiVersion": "karpenter.k8s.aws/v1beta1",
        "kind": "EC2NodeClass",
        "metadata": {"name": name},
        "spec": {
            "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "c"}}],
            "securityGroupSelectorTerms": [{"id": "sg-0123456789abcdef0"}],
            **family,
            **spec,
        },
    },
    names,
    st.fixed_dictionaries(
        {"role": names},
        optional={
            "tags": st.dictionaries(names, names, max_size=2),
            "userData": names,
            "context": names,
            "detailedMonitoring": st.booleans(),
            "associatePublicIPAddress": st.booleans(),
            "instanceStorePolicy": st.just("RAID0"),
            "metadataOptions": st.fixed_dictionaries(
                {}, optional={"httpPutResponseHopLimit": st.integers(1, 64), "httpTokens": st.just("optional")}
            ),
            "blockDeviceMappings": st.just(
                [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "100Gi", "encrypted": True}}]
            ),
        },
    ),
    st.sampled_from(
        [
            {"amiFamily": "AL2"}, {"amiFamily": "AL2023"}, {"amiFamily": "Bottlerocket"},
            {"amiFamily": "Windows2022"},
            {"amiFamily": "Custom", "amiSelectorTerms": [{"id": "ami-0123456789abcdef0"}]},
            {"amiFamily": "AL2", "amiSelectorTerms": [{"name": "my-*", "owner": "self"}]},
        ]
    ),
)  # fmt: skip
