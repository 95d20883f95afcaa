"""The agent for clusters without a queue: closed, and nowhere unless somebody asks for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes" / "interruption-imds.yaml"
DOCUMENTS = {one["kind"]: one for one in yaml.safe_load_all(FILE.read_text())}
POD: dict[str, Any] = DOCUMENTS["DaemonSet"]["spec"]["template"]["spec"]


def test_it_runs_only_where_a_pool_asks_for_it() -> None:
    """Off by default, though the folder is applied as a whole."""
    assert POD["nodeSelector"] == {"dovetail.sh/interruption-source": "imds"}
    assert POD["tolerations"] == [{"operator": "Exists"}]


def test_it_reads_the_metadata_from_the_hosts_network_and_serves_nobody() -> None:
    (container,) = POD["containers"]
    variables = {one["name"]: one for one in container["env"]}
    assert container["args"] == ["services.interruption", "--source", "imds"]
    assert POD["hostNetwork"] is True
    assert variables["STATUS_HOST"]["value"] == "127.0.0.1"
    assert variables["NODE_NAME"]["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"
    for probe in ("livenessProbe", "readinessProbe"):
        asked = container[probe]["httpGet"]
        assert (asked["host"], str(asked["port"])) == (
            "127.0.0.1",
            variables["STATUS_PORT"]["value"],
        )


def test_its_container_is_closed() -> None:
    """docs/operating/security.md: what a container may do."""
    (container,) = POD["containers"]
    assert POD["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"]["memory"]


def test_it_may_do_no_more_than_its_node_needs() -> None:
    """It may not list: a token that is stolen from a node shows no other machine's name."""
    rules = DOCUMENTS["ClusterRole"]["rules"]
    assert not [rule for rule in rules if {"list", "watch"} & {*rule["verbs"]}]
    assert DOCUMENTS["RoleBinding"]["roleRef"]["name"] == "dovetail-settings"
