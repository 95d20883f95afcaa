"""``dovetail migrate cluster-autoscaler``: groups and flags become valid pools, and both are planned (MAP-07)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from cli.main import commands
from cli.migration.autoscaler_flags import parsed_flags, translated
from cli.migration.cluster_autoscaler import flags_in, kept_pods, manifests
from cli.migration.node_groups import Groups, NodeGroup, notes_of, read_groups
from shared.api.registry import check
from shared.domain.expressions import Taint
from tests.shared.api.conftest import json_values

LABEL = "k8s.io/cluster-autoscaler/node-template/label/"
TAINT = "k8s.io/cluster-autoscaler/node-template/taint/"


def scaling_group(**changes: Any) -> dict[str, Any]:
    tags = {f"{LABEL}team": "web", f"{TAINT}dedicated": "web:NoSchedule"}
    return {
        "AutoScalingGroupName": "Web_Workers",
        "MinSize": 2,
        "MaxSize": 10,
        "AvailabilityZones": ["us-east-1a", "us-east-1b"],
        "VPCZoneIdentifier": "subnet-0a,subnet-0b",
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
        "MixedInstancesPolicy": {
            "LaunchTemplate": {
                "Overrides": [{"InstanceType": "m5.2xlarge"}, {"InstanceType": "m5a.2xlarge"}]
            },
            "InstancesDistribution": {
                "OnDemandBaseCapacity": 0,
                "OnDemandPercentageAboveBaseCapacity": 100,
            },
        },
        **changes,
    }


def managed_group(**changes: Any) -> dict[str, Any]:
    return {
        "nodegroup": {
            "nodegroupName": "batch",
            "scalingConfig": {"minSize": 0, "maxSize": 5, "desiredSize": 1},
            "instanceTypes": ["c5.xlarge"],
            "capacityType": "SPOT",
            "subnets": ["subnet-0123"],
            "amiType": "BOTTLEROCKET_x86_64",
            "nodeRole": "arn:aws:iam::1:role/batch-nodes",
            "labels": {"team": "batch"},
            "taints": [{"key": "batch", "value": "true", "effect": "NO_SCHEDULE"}],
            "resources": {"autoScalingGroups": [{"name": "eks-batch-1"}]},
            **changes,
        }
    }


def only_group(*documents: object) -> NodeGroup:
    groups = read_groups(documents)
    assert groups.faults == []
    (group,) = groups.found
    return group


def pools(*documents: object, flags: str = "", any_type: bool = False) -> list[dict[str, Any]]:
    found = translated(parsed_flags([flags]))
    return manifests(read_groups(documents), found, "demo", "nodes", any_type=any_type)


def becomes(flag: str) -> tuple[str, str]:
    name = flag.partition("=")[0]
    rows = {row.flag: row for row in translated(parsed_flags([flag])).rows}
    return rows[name].verdict, rows[name].text


def test_an_auto_scaling_group_becomes_a_pool_and_a_class() -> None:
    pool, node_class = pools({"AutoScalingGroups": [scaling_group()]})
    template = pool["spec"]["template"]
    requirements = {one["key"]: one["values"] for one in template["spec"]["requirements"]}
    assert pool["metadata"]["name"] == "web-workers"
    assert requirements["node.kubernetes.io/instance-type"] == ["m5.2xlarge", "m5a.2xlarge"]
    assert requirements["topology.kubernetes.io/zone"] == ["us-east-1a", "us-east-1b"]
    assert template["metadata"]["labels"] == {"team": "web"}
    assert template["spec"]["taints"] == [{"key": "dedicated", "value": "web", "effect": "NoSchedule"}]  # fmt: skip
    assert pool["spec"]["limits"] == {"nodes": "10"}
    assert [one["id"] for one in node_class["spec"]["subnetSelectorTerms"]] == ["subnet-0a", "subnet-0b"]  # fmt: skip
    assert check(pool) == check(node_class) == []


OPTION = "k8s.io/cluster-autoscaler/node-template/autoscaling-options/"


def with_options(**options: str) -> dict[str, Any]:
    tags = [{"Key": OPTION + key, "Value": value} for key, value in options.items()]
    return {"AutoScalingGroups": [scaling_group(Tags=tags)]}


def test_options_of_a_group_are_those_of_its_pool() -> None:
    options = {"scaledownunneededtime": "25m0s", "scaledownutilizationthreshold": "0.35"}
    pool, _ = pools(with_options(**options), flags="--scale-down-unneeded-time=5m")
    assert pool["spec"]["disruption"]["consolidateAfter"] == "1500s"
    assert pool["metadata"]["annotations"]["dovetail.sh/utilization-threshold"] == "35%"
    assert check(pool) == []
    never, _ = pools(with_options(**options), flags="--scale-down-enabled=false")
    assert never["spec"]["disruption"]["consolidateAfter"] == "Never"


@pytest.mark.parametrize(
    ("options", "note"),
    [
        ({"scaledownunneededtime": "soon"}, "scaledownunneededtime: 'soon' is not a duration"),
        ({"scaledownutilizationthreshold": "50"}, "'50' is not a share such as 0.5"),
        ({"scaledownutilizationthreshold": "nan"}, "'nan' is not a share such as 0.5"),
        ({"scaledownunreadytime": "20m"}, "scaledownunreadytime=20m: no counterpart"),
    ],
)
def test_an_option_that_has_no_counterpart_is_noted(options: dict[str, str], note: str) -> None:
    group = only_group(with_options(**options))
    assert any(note in one for one in notes_of(group))
    pool, _ = pools(with_options(**options))
    assert "dovetail.sh/utilization-threshold" not in pool["metadata"]["annotations"]
    assert pool["spec"]["disruption"]["consolidateAfter"] == "600s"


def test_local_delays_are_annotations_of_every_pool() -> None:
    flags = "--scale-down-delay-after-add=10m --scale-down-delay-after-failure=3m"
    found = translated(parsed_flags([f"{flags} --scale-down-delay-type-local"]))
    assert not any(name.startswith("SCALE_DOWN_DELAY") for name in found.settings)
    pool, _ = pools(managed_group(), flags=f"{flags} --scale-down-delay-type-local=true")
    assert pool["metadata"]["annotations"] == {
        "dovetail.sh/scale-down-delay-after-add": "600s",
        "dovetail.sh/scale-down-delay-after-failure": "180s",
    }
    assert check(pool) == []
    whole = translated(parsed_flags([f"{flags} --scale-down-delay-type-local=false"]))
    assert whole.settings["SCALE_DOWN_DELAY_AFTER_ADD"] == "600s"
    assert whole.annotations == {}


def test_a_managed_node_group_counts_once() -> None:
    its_own = scaling_group(AutoScalingGroupName="eks-batch-1")
    group = only_group({"AutoScalingGroups": [its_own]}, managed_group())
    assert (group.name, group.capacity_types, group.alias) == ("batch", ("spot",), "bottlerocket")
    assert (group.role, group.taints) == ("batch-nodes", (Taint("batch", "NoSchedule", "true"),))


@pytest.mark.parametrize(
    ("base", "share", "types"),
    [(0, 0, ("spot",)), (0, 100, ("on-demand",)), (2, 0, ("spot", "on-demand")), (0, 50, ("spot", "on-demand"))],
)  # fmt: skip
def test_a_mixed_group_gives_its_capacity_types(base: int, share: int, types: object) -> None:
    policy = scaling_group()["MixedInstancesPolicy"]
    policy["InstancesDistribution"] |= {
        "OnDemandBaseCapacity": base,
        "OnDemandPercentageAboveBaseCapacity": share,
    }
    answer = {"AutoScalingGroups": [scaling_group(MixedInstancesPolicy=policy)]}
    assert only_group(answer).capacity_types == types


def test_the_type_of_a_launch_template_is_read() -> None:
    group = scaling_group(MixedInstancesPolicy=None, LaunchTemplate={"LaunchTemplateId": "lt-1"})
    versions = [{"LaunchTemplateId": "lt-1", "LaunchTemplateData": {"InstanceType": "r5.large"}}]
    answers = ({"AutoScalingGroups": [group]}, {"LaunchTemplateVersions": versions})
    assert only_group(*answers).types == ("r5.large",)
    assert "Web_Workers: instance types" in read_groups(answers[:1]).faults[0]


def test_the_type_of_a_managed_groups_launch_template_is_read() -> None:
    group = managed_group(instanceTypes=None, launchTemplate={"id": "lt-1"})
    versions = [{"LaunchTemplateId": "lt-1", "LaunchTemplateData": {"InstanceType": "r5.large"}}]
    assert only_group(group, {"LaunchTemplateVersions": versions}).types == ("r5.large",)


def test_a_capacity_block_is_reserved() -> None:
    group = only_group(managed_group(capacityType="CAPACITY_BLOCK"))
    assert group.capacity_types == ("reserved",)
    assert group.notes == ("capacity block: write capacityReservationSelectorTerms",)


def mixed_group(*overrides: dict[str, Any], **changes: Any) -> dict[str, Any]:
    policy = {"LaunchTemplate": {"Overrides": list(overrides)}}
    return {"AutoScalingGroups": [scaling_group(MixedInstancesPolicy=policy, **changes)]}


def test_types_that_ec2_chooses_are_not_read() -> None:
    wanted = {"InstanceRequirements": {"VCpuCount": {"Min": 2}, "MemoryMiB": {"Min": 4096}}}
    [fault] = read_groups([mixed_group(wanted)]).faults
    assert fault.startswith("Web_Workers: instance types: InstanceRequirements are not read; ")
    running = only_group(mixed_group(wanted, Instances=[{"InstanceType": "m5.large"}]))
    assert running.types == ("m5.large",)
    assert any(note.startswith("InstanceRequirements: ") for note in running.notes)


def test_sizes_in_units_and_resources_of_nodes_are_noted() -> None:
    prefix = "k8s.io/cluster-autoscaler/node-template/resources/"
    tags = {f"{prefix}ephemeral-storage": "100G", f"{prefix}example.com/fpga": "2"}
    types = {"InstanceType": "m5.large"}, {"InstanceType": "m5.xlarge", "WeightedCapacity": "2"}
    group = only_group(mixed_group(*types, Tags=[{"Key": k, "Value": v} for k, v in tags.items()]))
    assert group.notes[1:] == (
        "WeightedCapacity: sizes of the group are units; mend limits.nodes and the minimum",
        "resources/ephemeral-storage=100G: instance type and volumes decide",
        "resources/example.com/fpga=2: a NodeOverlay adds what drivers report",
    )


def test_files_without_groups_are_a_fault() -> None:
    [fault] = read_groups([{"kind": "Pod"}]).faults
    assert "no AutoScalingGroups and no nodegroup in the files; give the output of aws " in fault
    [fault] = read_groups([{"kind": "ClusterConfig", "managedNodeGroups": []}]).faults
    assert fault.endswith("A ClusterConfig of eksctl is not read")


@given(
    json_values("AutoScalingGroups", "nodegroup", "Tags", "InstanceType", "instanceTypes", "taints")
)
def test_nothing_that_a_file_holds_makes_it_raise(junk: Any) -> None:
    read_groups([junk, {"nodegroup": junk}, {"AutoScalingGroups": [scaling_group(**{"Tags": []})]}])


names = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_-]{0,20}", fullmatch=True)
any_group = st.builds(
    NodeGroup,
    name=names,
    least=st.integers(0, 5),
    most=st.integers(0, 100),
    types=st.just(("m5.large",)),
    capacity_types=st.sampled_from([("spot",), ("on-demand",), ("spot", "on-demand")]),
    zones=st.sampled_from([(), ("us-east-1a",)]),
    subnets=st.sampled_from([(), ("subnet-0a",)]),
    labels=st.dictionaries(
        st.sampled_from(["team", "kubernetes.io/os", "karpenter.sh/nodepool", "example.com/x"]),
        st.from_regex(r"[a-z]{1,5}", fullmatch=True),
    ),
    taints=st.sampled_from([(), (Taint("a", "NoSchedule", "b"),)]),
    alias=st.sampled_from(["al2", "al2023", "bottlerocket", "windows2022"]),
)
FLAGS = (
    "--scale-down-unneeded-time=5m", "--scale-down-enabled=false", "--expander=price", "--max-empty-bulk-delete=3",
    "--max-scale-down-parallelism=2", "--max-graceful-termination-sec=600", "--max-nodes-total=50", "--nonsense=1",
)  # fmt: skip


@given(any_group, st.lists(st.sampled_from(FLAGS)), st.booleans())
def test_every_pool_and_class_is_valid(group: NodeGroup, flags: list[str], any_type: bool) -> None:
    found = translated(parsed_flags(flags))
    made = manifests(Groups([group]), found, "demo", "nodes", any_type=any_type)
    assert [check(one) for one in made] == [[], []]


@pytest.mark.parametrize(
    ("flag", "verdict", "text"),
    [
        ("--scale-down-unneeded-time=5m", "kept", "spec.disruption.consolidateAfter: 300s"),
        ("--scale-down-enabled=false", "kept", "spec.disruption.consolidateAfter: Never"),
        ("--expander=price", "kept", "annotation dovetail.sh/packing: LowestCost on the pools"),
        ("--expander=priority", "by hand", "EXPANDER=priority; EXPANDER_PRIORITIES: the ConfigMap's priorities"),
        ("--max-node-provision-time=20m", "kept", "REGISTRATION_TIMEOUT=1200s of the launcher"),
        ("--max-nodes-total=50", "kept", "MAX_NODES=50 of the launcher"),
        ("--max-empty-bulk-delete=3", "kept", "a budget of 3 nodes for Empty"),
        ("--scale-down-unneeded-time=soon", "by hand", "'soon' is not a duration such as 10m"),
        ("--skip-nodes-with-local-storage=false", "kept", "pods with emptyDir or hostPath do not keep a node"),
        ("--balance-similar-node-groups", "by hand",
         "zones are balanced for pods that ask for it: topologySpreadConstraints"),
        ("--unheard-of=1", "by hand", "no counterpart is known"),
    ],
)  # fmt: skip
def test_what_a_flag_becomes(flag: str, verdict: str, text: str) -> None:
    assert becomes(flag) == (verdict, text)


def test_defaults_that_decide_when_nodes_go_are_written_out() -> None:
    (pool, _) = pools(managed_group())
    assert pool["spec"]["disruption"]["consolidateAfter"] == "600s"


def test_flags_are_read_with_and_without_equals_sign() -> None:
    words = [
        "./cluster-autoscaler",
        "--v",
        "4",
        "--expander=price",
        "--balance-similar-node-groups",
    ]
    assert parsed_flags(words) == {"v": "4", "expander": "price", "balance-similar-node-groups": ""}
    assert parsed_flags(["--a 'open"]) == {"a": "'open"}


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (["./cluster-autoscaler", "--expander=price"], ["--v=4"]),
        (["./cluster-autoscaler"], ["--expander", "price", "--v", "4"]),
        ([], ["--expander", "price", "-v=4"]),
        (["/bin/sh", "-c", "exec ./cluster-autoscaler --expander price --v=4"], []),
        (["sh", "-ec"], ["./cluster-autoscaler --v=4 --expander=price 2>&1 | tee /var/log/ca.log"]),
    ],
)
def test_flags_of_its_deployment_are_found(command: list[str], arguments: list[str]) -> None:
    container = {"image": "autoscaling/cluster-autoscaler", "command": command, "args": arguments}
    spec = {"template": {"spec": {"containers": [container]}}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "ca"},
        "spec": spec,
    }
    assert flags_in([{"AutoScalingGroups": []}, deployment]) == {"expander": "price", "v": "4"}


def test_the_programs_name_as_a_value_is_not_the_program() -> None:
    words = ["--v=4", "--namespace", "cluster-autoscaler", "--scale-down-enabled", ">>", "log"]
    assert parsed_flags(words) == {
        "v": "4",
        "namespace": "cluster-autoscaler",
        "scale-down-enabled": "",
    }


def test_pods_that_were_not_to_be_evicted_are_named() -> None:
    notes = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "annotations": notes}}
    assert kept_pods([pod, {"kind": "Pod", "metadata": {"name": "b"}}]) == ["Pod default/a"]


def workload(replicas: int) -> dict[str, Any]:
    container = {
        "name": "a",
        "image": "a",
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    }
    toleration = {"key": "dedicated", "operator": "Exists"}
    template = {
        "metadata": {"labels": {"app": "a"}},
        "spec": {"containers": [container], "tolerations": [toleration]},
    }
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "a"}}, "template": template},
    }  # fmt: skip


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "groups.json").write_text(json.dumps({"AutoScalingGroups": [scaling_group()]}))
    (tmp_path / "cluster.json").write_text(json.dumps(workload(12)))
    return ["-f", str(tmp_path), "--cluster-name", "demo"]


def run(*words: str) -> Any:
    return CliRunner().invoke(commands, ["migrate", "cluster-autoscaler", *words])


@pytest.mark.slow
def test_all_pods_run_on_each_side_and_free_choice_costs_least(files: list[str]) -> None:
    done = run(*files, "-o", "json")
    assert done.exit_code == 0, done.output
    plans = json.loads(done.stdout)["plans"]
    assert [plan["pending"] for plan in plans] == [0, 0, 0]
    theirs, same, free = (plan["hourly"] for plan in plans)
    assert theirs >= same >= free > 0
    assert theirs > free


def test_the_manifests_are_printed_for_kubectl(files: list[str]) -> None:
    done = run(*files, "-o", "yaml")
    pool, node_class = yaml.safe_load_all(done.stdout)
    assert [pool["kind"], node_class["kind"]] == ["NodePool", "EC2NodeClass"]
    assert pool["metadata"]["annotations"]["dovetail.sh/minimum"] == "nodes: 2"


@pytest.mark.slow
def test_the_table_names_what_is_left_to_do(files: list[str]) -> None:
    done = run(*files, "--flags", "--expander=priority")
    assert "EXPANDER=priority" in done.stdout
    assert "NodePools of any type" in done.stdout
