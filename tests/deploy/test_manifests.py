"""What is shipped for real clusters: CRDs with descriptions, roles without wildcards, closed containers."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.watcher.conversion import KINDS
from tests.support.texts.documents import documents

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
SERVICES = ("watcher", "scheduler", "launcher", "terminator", "interruption")
Document = dict[str, Any]


def shipped(folder: str) -> list[Document]:
    return [one for file in sorted((DEPLOY / folder).glob("*.yaml")) for one in documents(file)]


MANIFESTS = shipped("kubernetes")
CRDS = {document["spec"]["names"]["kind"]: document for document in shipped("crds")}


def of_kind(*kinds: str) -> list[Document]:
    return [document for document in MANIFESTS if document["kind"] in kinds]


def named(kind: str, name: str) -> Document:
    (found,) = [d for d in of_kind(kind) if d["metadata"]["name"] == f"dovetail-{name}"]
    return found


@pytest.mark.parametrize("service", [*SERVICES, "console"])
@pytest.mark.parametrize(
    "kind", ["Deployment", "Service", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"]
)
def test_every_service_has_an_object_of_its_own(kind: str, service: str) -> None:
    named(kind, service)


def test_no_role_has_a_wildcard_or_may_widen_itself() -> None:
    """docs/operating/security.md: no role is wider than its work."""
    for role in of_kind("ClusterRole", "Role"):
        for rule in role["rules"]:
            fields = ("apiGroups", "resources", "nonResourceURLs", "verbs")
            words = [word for field in fields for word in rule.get(field, ())]
            assert not {"*", "escalate", "bind", "impersonate", "secrets"} & {*words}


def test_of_all_configmaps_only_the_settings_may_be_read() -> None:
    """OPS-04: the settings ConfigMap of v1alpha5."""
    rules = [rule for role in of_kind("ClusterRole", "Role") for rule in role["rules"]]
    (rule,) = [rule for rule in rules if "configmaps" in rule.get("resources", ())]
    assert rule == {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": ["karpenter-global-settings"],
        "verbs": ["get", "list"],
    }
    binding = named("RoleBinding", "settings")
    assert [s["name"] for s in binding["subjects"]] == [
        f"dovetail-{n}" for n in (*SERVICES, "console")
    ]
    settings = next(d["data"] for d in of_kind("ConfigMap"))
    assert binding["metadata"]["namespace"] == settings["SYSTEM_NAMESPACE"]


def test_variables_leave_room_for_the_configmap() -> None:
    """OPS-04: what a variable says, karpenter-global-settings cannot change; so none of them repeats a default."""
    settings = next(d["data"] for d in of_kind("ConfigMap"))
    assert not [name for name in settings if name.startswith("BATCH_")]


def test_the_watcher_alone_may_keep_node_templates() -> None:
    """T-13: provider in line."""
    may = {
        role["metadata"]["name"]: rule["verbs"]
        for role in of_kind("ClusterRole")
        for rule in role["rules"]
        if "awsnodetemplates" in rule.get("resources", ()) and "create" in rule["verbs"]
    }
    assert may.keys() == {"dovetail-watcher"}
    assert {"get", "create", "update", "delete"} <= {*may["dovetail-watcher"]}


def test_the_watcher_may_watch_every_kind_that_it_mirrors() -> None:
    """RBAC-01: a kind that it may not list keeps it from ever being ready."""
    may = {
        (group, resource)
        for rule in named("ClusterRole", "watcher")["rules"]
        if {"list", "watch"} <= {*rule["verbs"]}
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert {(kind.resource.group, kind.resource.plural) for kind in KINDS} <= may


def test_the_watcher_may_write_every_status_that_it_keeps() -> None:
    """Of pools and classes; of NodeClaims the time of the last pod event."""
    written = {
        resource
        for rule in named("ClusterRole", "watcher")["rules"]
        for resource in rule["resources"]
        if resource.endswith("/status") and rule["verbs"] == ["patch"]
    }
    pools = {"provisioners/status", "nodepools/status"}
    classes = {"awsnodetemplates/status", "ec2nodeclasses/status"}
    assert written == pools | classes | {"nodeclaims/status"}


@pytest.mark.parametrize(
    ("resources", "who"),
    [
        ({"pods/eviction", "pods"}, {"dovetail-terminator"}),
        # The launcher orders away nodes whose instance EC2 has ended (LCH-81).
        ({"nodes"}, {"dovetail-terminator", "dovetail-launcher"}),
    ],
)
def test_few_may_evict_or_delete(resources: set[str], who: set[str]) -> None:
    may = {
        role["metadata"]["name"]
        for role in of_kind("ClusterRole")
        for rule in role["rules"]
        if resources & {*rule.get("resources", ())} and {"create", "delete"} & {*rule["verbs"]}
    }
    assert may == who


@pytest.mark.parametrize(
    ("group", "resource", "verbs"),
    [
        ("", "nodes", {"get", "list", "patch", "delete"}),
        ("", "pods", {"list", "delete"}),
        ("", "pods/eviction", {"create"}),
        ("", "persistentvolumeclaims", {"get"}),
        ("", "events", {"create", "patch"}),
        ("storage.k8s.io", "volumeattachments", {"list"}),
        ("karpenter.sh", "machines", {"get", "list", "patch", "delete"}),
        ("karpenter.sh", "nodeclaims", {"get", "list", "patch", "delete"}),
        ("karpenter.sh", "machines/status", {"patch"}),
        ("karpenter.sh", "nodeclaims/status", {"patch"}),
        ("dovetail.sh", "launchrecords", {"list"}),
    ],
)
def test_the_terminator_may_do_its_work_and_no_more(
    group: str, resource: str, verbs: set[str]
) -> None:
    """TRM-03..TRM-22: what it really calls is compared with this role beside its own tests."""
    rules = named("ClusterRole", "terminator")["rules"]
    may = [rule for rule in rules if group in rule["apiGroups"] and resource in rule["resources"]]
    assert [{*rule["verbs"]} for rule in may] == [verbs]


@pytest.mark.parametrize("deployment", of_kind("Deployment"), ids=lambda d: d["metadata"]["name"])
def test_every_container_runs_closed(deployment: Document) -> None:
    """docs/operating/security.md: what a container may do."""
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 65532
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]


@pytest.mark.parametrize("deployment", of_kind("Deployment"), ids=lambda d: d["metadata"]["name"])
def test_no_pod_of_dovetail_lands_on_a_node_that_dovetail_may_remove(deployment: Document) -> None:
    pod = deployment["spec"]["template"]["spec"]
    affinity = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    keys = {e["key"]: e["operator"] for e in affinity["nodeSelectorTerms"][0]["matchExpressions"]}
    assert keys == {
        "karpenter.sh/provisioner-name": "DoesNotExist",
        "karpenter.sh/nodepool": "DoesNotExist",
    }


@pytest.mark.parametrize("name", ["watcher", "scheduler"])
def test_of_those_that_must_be_alone_one_leads_and_one_stands_by(name: str) -> None:
    """OPS-11, RBAC-03: two replicas, and the right to elect one of them."""
    assert named("Deployment", name)["spec"]["replicas"] == 2
    role = next(r for r in of_kind("Role") if r["metadata"]["name"] == f"dovetail-{name}")
    named_lease = next(rule for rule in role["rules"] if "resourceNames" in rule)
    assert named_lease["resourceNames"] == [f"karpenter-leader-election-{name}"]
    assert set(named_lease["verbs"]) == {"get", "update", "watch"}


def test_the_crds_are_both_generations_with_a_status_subresource() -> None:
    """API-01, API-02; NP-13: pools of a fixed size can be scaled."""
    first = ["AWSNodeTemplate", "Machine", "Provisioner"]
    second = ["EC2NodeClass", "NodeClaim", "NodeOverlay", "NodePool"]
    namespaced = ["CapacityBuffer", "ProvisioningRequest"]
    assert sorted(CRDS) == sorted([*first, *second, *namespaced, "DeviceTemplate", "LaunchRecord"])
    for kind, document in CRDS.items():
        version = stored(kind)
        assert version["subresources"]["status"] == {}
        assert ("scale" in version["subresources"]) == (kind == "NodePool")
        assert document["spec"]["scope"] == ("Namespaced" if kind in namespaced else "Cluster")


def stored(kind: str) -> Document:
    """The version that the API server stores."""
    (version,) = (one for one in CRDS[kind]["spec"]["versions"] if one["storage"])
    found: Document = version
    return found


def columns(kind: str) -> list[tuple[str, int]]:
    version = stored(kind)
    return [(c["name"], c.get("priority", 0)) for c in version["additionalPrinterColumns"]]


def test_printer_columns_are_karpenter_s() -> None:
    """P-14, M-04: wide columns have priority 1."""
    assert columns("Provisioner") == [("Template", 0), ("Weight", 1)]
    narrow = [("Type", 0), ("Zone", 0), ("Node", 0), ("Ready", 0), ("Age", 0)]
    assert columns("Machine") == [*narrow, ("Capacity", 1), ("Provisioner", 1), ("Template", 1)]


def fields(schema: Document, path: str) -> Iterator[tuple[str, Document]]:
    for name, child in schema.get("properties", {}).items():
        yield f"{path}.{name}", child
        yield from fields(child, f"{path}.{name}")
    if "items" in schema:
        yield from fields(schema["items"], f"{path}[]")


@pytest.mark.parametrize("kind", CRDS)
def test_every_field_of_a_crd_is_described_and_typed(kind: str) -> None:
    version = stored(kind)
    found = dict(fields(version["schema"]["openAPIV3Schema"], kind))
    found.pop(f"{kind}.metadata")
    assert [path for path, field in found.items() if not field.get("description")] == []
    typed = {"type", "x-kubernetes-int-or-string"}
    assert [path for path, field in found.items() if not typed & field.keys()] == []


def test_operators_and_effects_are_refused_by_the_schema() -> None:
    """F28: whoever applies the file hears of it at once."""
    (version,) = CRDS["Provisioner"]["spec"]["versions"]
    found = dict(fields(version["schema"]["openAPIV3Schema"], "Provisioner"))
    assert found["Provisioner.spec.requirements[].operator"]["enum"]
    assert found["Provisioner.spec.taints[].effect"]["enum"]


def test_the_document_pins_every_image_of_the_manifests() -> None:
    """The digests are the administrator's to fill in: that of our own image is not known before it is built."""
    text = (DEPLOY.parent / "docs" / "operating" / "security.md").read_text()
    pinned = set(re.findall(r"- {name: (\S+?),.*digest:", text))
    shipped_images = {
        container["image"].partition(":")[0]
        for workload in of_kind("Deployment", "DaemonSet")
        for container in workload["spec"]["template"]["spec"]["containers"]
    }
    assert shipped_images == pinned


def test_the_scheduler_may_have_tokens_looked_at() -> None:
    """QUESTIONS=authenticated: it creates reviews, which nobody stores."""
    may = {
        (group, resource)
        for rule in named("ClusterRole", "scheduler")["rules"]
        if rule["verbs"] == ["create"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert {
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    } == may
