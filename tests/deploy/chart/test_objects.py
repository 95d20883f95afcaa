"""The objects of the chart, for values that differ in everything that changes them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from deploy.rendering import helm
from deploy.rendering.settings_schema import SERVICES
from shared.settings import read
from tests.support.cluster.helm import CHART, CRDS, MATRIX, NEEDS_HELM, REQUIRED, rendered
from tests.support.cluster.strict_objects import faults
from tests.support.texts.documents import documents

pytestmark = NEEDS_HELM
Document = dict[str, Any]
Release = Callable[[str], list[Document]]
NAMESPACE = "platform"
OF_USERS = {"mine", "records"}
"""PersistentVolumeClaims that a release expects to be there."""
PAGES = CHART.parents[1] / "docs" / "operating"
RULES = """groups:
  - name: dovetail
    rules:
      - record: dovetail:pods:sum
        expr: sum(karpenter_pods_state)
      - alert: DovetailQueueOld
        expr: max by (queue) (dovetail_queue_age_seconds) > 60
        for: 5m
        labels: {severity: page}
        annotations: {summary: "{{ $labels.queue }} is {{ $value }} s old"}
"""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """The objects for a set of values of the matrix; the chart has a dashboard and rules."""
    folder = tmp_path_factory.mktemp("charts")
    chart = folder / "dovetail"
    shutil.copytree(CHART, chart)
    for name, text in (
        ("dashboards/costs.json", '{"title": "Costs"}\n'),
        ("rules/one.yaml", RULES),
    ):
        path = chart / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    @cache
    def render(name: str) -> list[Document]:
        return rendered(MATRIX[name], folder, chart=chart, namespace=NAMESPACE)

    return render


def named(objects: list[Document], kind: str, name: str) -> Document:
    (found,) = [o for o in objects if (o["kind"], o["metadata"]["name"]) == (kind, name)]
    return found


def pod_of(objects: list[Document], service: str) -> Document:
    template = named(objects, "Deployment", f"dovetail-{service}")["spec"]["template"]
    return {**template["spec"], "metadata": template["metadata"]}


def variables(objects: list[Document], workload: Document) -> dict[str, str]:
    """What a container's process sees, but for Secrets: as the kubelet puts it together."""
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    found: dict[str, str] = {}
    for source in container["envFrom"]:
        if "configMapRef" in source:
            for one in objects:
                place = one["metadata"].get("namespace"), one["metadata"]["name"]
                wanted = workload["metadata"]["namespace"], source["configMapRef"]["name"]
                if one["kind"] == "ConfigMap" and place == wanted:
                    found |= one["data"]
    return found | {one["name"]: one["value"] for one in container.get("env", []) if "value" in one}


each = pytest.mark.parametrize("name", MATRIX)


@each
def test_an_api_server_that_checks_strictly_takes_every_object(name: str, release: Release) -> None:
    objects = release(name)
    assert [fault for one in objects for fault in faults(one)] == []
    places = [(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) for o in objects]
    assert len({*places}) == len(places)


@each
def test_every_service_has_its_objects_and_a_budget_if_it_has_replicas(
    name: str, release: Release
) -> None:
    objects = release(name)
    budgets = {o["metadata"]["name"] for o in objects if o["kind"] == "PodDisruptionBudget"}
    off = {"console"} if "without console" in name else set()
    for service in SERVICES.keys() - off:
        for kind in ("ServiceAccount", "Service", "ClusterRole", "ClusterRoleBinding", "Role"):
            if (kind, service) not in {("Role", "terminator"), ("Role", "interruption")}:
                named(objects, kind, f"dovetail-{service}")
        replicas = named(objects, "Deployment", f"dovetail-{service}")["spec"]["replicas"]
        assert (f"dovetail-{service}" in budgets) == (replicas > 1)
    assert not [o for o in objects if off & {o["metadata"]["name"].removeprefix("dovetail-")}]


@each
def test_whatever_is_named_is_there(name: str, release: Release) -> None:
    """Accounts of bindings, ConfigMaps, claims and the pods of Services and budgets; namespaces are the release's."""
    objects = release(name)
    accounts = {place(o["metadata"]) for o in objects if o["kind"] == "ServiceAccount"}
    bound = [
        subject
        for one in objects
        if one["kind"].endswith(
            "RoleBinding"
        )  # not those of admission policies, which have no accounts
        for subject in one["subjects"]
        if subject["kind"] == "ServiceAccount"
    ]
    assert {place(subject) for subject in bound} == accounts
    pods = [o["spec"]["template"] for o in objects if o["kind"] in {"Deployment", "DaemonSet"}]
    for one in objects:
        selector = one.get("spec", {}).get("selector") or {}
        wanted = selector.get("matchLabels", selector)
        if one["kind"] in {"Service", "PodDisruptionBudget", "Deployment"}:
            assert [p for p in pods if wanted.items() <= p["metadata"]["labels"].items()], one
    claims = {o["metadata"]["name"] for o in objects if o["kind"] == "PersistentVolumeClaim"}
    used = {
        volume["persistentVolumeClaim"]["claimName"]
        for pod in pods
        for volume in pod["spec"]["volumes"]
        if "persistentVolumeClaim" in volume
    }
    assert used - OF_USERS == claims


def place(named: Document) -> tuple[str, str]:
    return named["namespace"], named["name"]


@each
def test_every_setting_is_read_by_its_service(
    name: str, release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers and truth values too: their text is what the service understands."""
    objects = release(name)
    kinds = SERVICES | {"shadow": SERVICES["scheduler"]}
    known = {field.upper() for kind in SERVICES.values() for field in kind.model_fields}
    for workload in objects:
        if workload["kind"] not in {"Deployment", "DaemonSet"}:
            continue
        service = workload["spec"]["template"]["spec"]["containers"][0]["name"]
        if service == "redis":
            continue
        stated = variables(objects, workload)
        assert stated.keys() <= known | {"AWS_EC2_METADATA_DISABLED", "MALLOC_ARENA_MAX"}
        with monkeypatch.context() as environment:
            for variable, value in stated.items():
                environment.setenv(variable, value)
            settings = read(kinds[service])
        assert (settings.cluster_name, settings.system_namespace) == ("blue", NAMESPACE)


@each
def test_every_pod_is_closed_and_lands_on_no_node_of_ours(name: str, release: Release) -> None:
    for one in release(name):
        if one["kind"] == "Deployment":
            spec = one["spec"]["template"]["spec"]
            assert spec["securityContext"]["runAsNonRoot"] is True
            (container,) = spec["containers"]
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            affinity = spec["affinity"]["nodeAffinity"]
            (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"][
                "nodeSelectorTerms"
            ]
            kept_off = {
                e["key"] for e in term["matchExpressions"] if e["operator"] == "DoesNotExist"
            }
            assert kept_off == {"karpenter.sh/provisioner-name", "karpenter.sh/nodepool"}


def test_roles_come_by_irsa_or_by_associations(release: Release) -> None:
    with_roles, without = release("irsa"), release("only what is required")
    for service in ("launcher", "terminator", "interruption"):
        account = named(with_roles, "ServiceAccount", f"dovetail-{service}")["metadata"]
        assert account["annotations"]["eks.amazonaws.com/role-arn"].endswith(f"role/{service}")
        bare = named(without, "ServiceAccount", f"dovetail-{service}")["metadata"]
        assert "annotations" not in bare
    agent = named(without, "NetworkPolicy", "dovetail-aws")["spec"]["egress"][0]["to"]
    assert [one["ipBlock"]["cidr"] for one in agent] == ["169.254.170.23/32", "fd00:ec2::23/128"]
    assert not [o for o in with_roles if o["metadata"]["name"] == "dovetail-aws"]
    audience = named(with_roles, "ServiceAccount", "dovetail-launcher")["metadata"]["annotations"]
    assert audience["eks.amazonaws.com/audience"] == "sts"


def test_a_redis_of_one_s_own_leaves_nothing_of_the_bundled_one(release: Release) -> None:
    objects = release("a Redis of one's own")
    assert not [o for o in objects if o["metadata"]["name"] == "dovetail-redis"]
    for service in SERVICES:
        pod = pod_of(objects, service)
        (container,) = pod["containers"]
        assert {"secretRef": {"name": "my-redis"}} in container["envFrom"]
        mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
        assert mounts["redis-ca"] == "/etc/dovetail/redis-ca"
        (secret,) = [v["secret"] for v in pod["volumes"] if v["name"] == "redis-ca"]
        assert secret["secretName"] == "my-authority"
    egress = named(objects, "NetworkPolicy", "dovetail-services")["spec"]["egress"]
    (rule,) = [r for r in egress if {"port": 6380, "protocol": "TCP"} in r["ports"]]
    assert [one["ipBlock"]["cidr"] for one in rule["to"]] == ["10.0.0.0/16", "fd00::/64"]
    apart = release("a Redis of one's own with a Secret per service")
    sources = pod_of(apart, "launcher")["containers"][0]["envFrom"]
    assert {"secretRef": {"name": "dovetail-redis-launcher"}} in sources


def test_with_users_of_iam_authentication_every_service_reaches_the_agent_of_pod_identity(
    release: Release,
) -> None:
    objects = release("a Redis whose users have IAM authentication")
    (_, components) = named(objects, "NetworkPolicy", "dovetail-aws")["spec"]["podSelector"][
        "matchExpressions"
    ]
    assert {*components["values"]} == {*SERVICES, "console"}


def test_the_bundled_redis_may_have_a_volume(release: Release) -> None:
    objects = release("the bundled Redis with TLS on a volume")
    claim = named(objects, "PersistentVolumeClaim", "dovetail-redis")["spec"]
    assert claim["storageClassName"] == "gp3"
    assert claim["resources"]["requests"] == {"storage": "4Gi"}
    (container,) = pod_of(objects, "redis")["containers"]
    probe = container["readinessProbe"]["exec"]["command"][2]
    assert f"--sni dovetail-redis.{NAMESPACE}.svc" in probe


def test_what_is_said_of_all_pods_and_of_one_service_is_joined(release: Release) -> None:
    objects = release("everything for pods")
    all_pods, own = pod_of(objects, "watcher"), pod_of(objects, "scheduler")
    assert all_pods["nodeSelector"] == {"role": "system"}
    assert own["nodeSelector"] == {"role": "system", "disk": "fast"}
    assert [t["key"] for t in own["tolerations"]] == ["system", "fast"]
    assert "priorityClassName" not in all_pods
    assert own["priorityClassName"] == "platform"
    assert own["metadata"]["labels"].items() >= {"team": "platform", "of": "scheduler"}.items()
    assert own["metadata"]["annotations"].items() >= {"of": "scheduler"}.items()
    assert [c["topologyKey"] for c in own["topologySpreadConstraints"]] == ["zone"]
    assert own["imagePullSecrets"] == [{"name": "registry"}]
    (container,) = own["containers"]
    assert container["image"] == "registry.example.com/dovetail@sha256:" + 64 * "a"
    environment = {one["name"]: one.get("value") for one in container["env"]}
    assert environment == {
        "BATCH_MAX_DURATION": "20s",
        "PACKING_EFFORT": "300",
        "HTTPS_PROXY": None,
        "MALLOC_ARENA_MAX": "1",
        "RECORD_STORE": "/var/lib/dovetail/records",
    }
    launcher = pod_of(objects, "launcher")["containers"][0]["env"]
    assert {"name": "MAX_NODES", "value": "1000000"} in launcher


@pytest.mark.slow
def test_pods_restart_when_settings_change(tmp_path: Path) -> None:
    sums = []
    for level in ("info", "debug", "info"):
        objects = rendered({"settings": {"LOG_LEVEL": level}}, tmp_path)
        sums.append(pod_of(objects, "watcher")["metadata"]["annotations"]["checksum/settings"])
    assert sums[0] == sums[2] != sums[1]


def test_selectors_are_the_same_in_every_release(release: Release) -> None:
    """They cannot be changed: an upgrade from any release, and from the plain manifests, keeps them."""
    for name in MATRIX:
        for one in release(name):
            if one["kind"] == "Deployment":
                selector = one["spec"]["selector"]["matchLabels"]
                component = one["metadata"]["name"].removeprefix("dovetail-")
                assert selector == {
                    "app.kubernetes.io/name": "dovetail",
                    "app.kubernetes.io/component": component,
                }


@pytest.mark.slow
def test_monitoring_has_every_file_of_the_chart(release: Release) -> None:
    objects = release("monitoring")
    kinds = [o["kind"] for o in objects if "monitoring.coreos.com" in o["apiVersion"]]
    assert {*kinds} == {"PodMonitor", "PrometheusRule", "ServiceMonitor"}
    rules = named(objects, "PrometheusRule", "dovetail-one")
    assert rules["spec"] == documents(RULES)[0]
    dashboard = named(objects, "ConfigMap", "dovetail-dashboard-costs")
    assert dashboard["data"] == {"costs.json": '{"title": "Costs"}\n'}
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    for name in MATRIX.keys() - {"monitoring"}:
        assert not [o for o in release(name) if "monitoring.coreos.com" in o["apiVersion"]]


def test_users_of_the_plugin_have_the_rights_that_its_page_names(release: Release) -> None:
    """The page shows the same objects for those who do not use Helm."""
    objects = release("the kubectl plugin")
    page = (PAGES / "kubectl-plugin.md").read_text()
    shown = documents(re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[0])
    for one in shown:
        found = named(objects, one["kind"], one["metadata"]["name"])
        assert found.get("rules") == one.get("rules")
    bound = named(objects, "RoleBinding", "dovetail-plugin")
    assert [one["name"] for one in bound["subjects"]] == ["platform-team"]


def test_users_of_the_plugin_answer_approvals_only_by_a_value_of_its_own(tmp_path: Path) -> None:
    values = {**REQUIRED, "kubectlPlugin": {"enabled": True, "approvals": True}}
    rules = named(rendered(values, tmp_path), "ClusterRole", "dovetail-user")["rules"]
    assert {"nonResourceURLs": ["/approvals"], "verbs": ["post"]} in rules


def test_the_api_server_and_a_collector_pass_the_policies(release: Release) -> None:
    spec = named(release("the kubectl plugin"), "NetworkPolicy", "dovetail-services")["spec"]
    assert {"ipBlock": {"cidr": "10.0.0.0/24"}} in spec["ingress"][0]["from"]
    assert {"ports": [{"protocol": "TCP", "port": 4318}]} in spec["egress"]


def test_runbooks_and_the_limit_of_cost_are_values(tmp_path: Path) -> None:
    """Of the real rules: the files carry a path without an address, and no limit."""
    rules = {"enabled": True, "runbooks": "https://docs.example.com/", "costLimit": 12.5}
    objects = rendered({"monitoring": {"rules": rules}}, tmp_path)
    groups = [g for o in objects if o["kind"] == "PrometheusRule" for g in o["spec"]["groups"]]
    found = [rule for group in groups for rule in group["rules"]]
    books = [one["annotations"]["runbook_url"] for one in found if "alert" in one]
    assert books
    assert all(one.startswith("https://docs.example.com/docs/operating/") for one in books)
    assert "vector(12.5)" in [one["expr"] for one in found]


def test_the_kinds_stay_when_their_chart_goes() -> None:
    """deploy/chart-crds: as templates, which Helm upgrades; otherwise they are those of deploy/crds."""
    plain = {
        one["metadata"]["name"]: one
        for path in sorted((CHART.parent / "crds").glob("*.yaml"))
        for one in documents(path)
    }
    found = documents(helm.template(CRDS))
    assert [fault for one in found for fault in faults(one)] == []
    for one in found:
        assert one["metadata"]["annotations"].pop("helm.sh/resource-policy") == "keep"
        assert one == plain.pop(one["metadata"]["name"])
    assert plain == {}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"spec": {"replicas": "two"}}, "is no int"),
        ({"spec": {"replcas": 2}}, "Deployment.spec.replcas is unknown"),
        ({"spec": {"template": {"spec": {"containers": [{"image": "a"}]}}}}, "name"),
    ],
)
def test_the_check_itself_finds_faults(wrong: Document, said: str, release: Release) -> None:
    whole = named(release("only what is required"), "Deployment", "dovetail-watcher")
    spec = {**whole["spec"], **wrong["spec"]}
    assert any(said in fault for fault in faults({**whole, "spec": spec}))
    assert REQUIRED["image"]["repository"] in str(whole)


@pytest.mark.parametrize(
    ("records", "mounted"),
    [
        pytest.param({"existingClaim": "records"}, True, id="claim"),
        pytest.param({"store": "s3://bucket/records"}, False, id="bucket"),
    ],
)
def test_the_console_reads_records_that_others_than_the_scheduler_can_read(
    records: dict[str, str], mounted: bool, tmp_path: Path
) -> None:
    objects = rendered({"records": records}, tmp_path)
    (container,) = pod_of(objects, "console")["containers"]
    environment = {one["name"]: one.get("value") for one in container["env"]}
    assert environment["RECORD_STORE"] == records.get("store", "/var/lib/dovetail/records")
    mounts = [one for one in container["volumeMounts"] if one["name"] == "records"]
    assert [one["readOnly"] for one in mounts] == [True] * mounted
    assert len(mounts) == mounted


def test_the_console_does_not_look_for_records_in_the_schedulers_own_volume(tmp_path: Path) -> None:
    pod = pod_of(rendered({}, tmp_path), "console")
    assert "records" not in [one["name"] for one in pod["volumes"]]
    assert "RECORD_STORE" not in [one["name"] for one in pod["containers"][0].get("env", [])]
