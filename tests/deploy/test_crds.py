"""Generated files are what the code says; the CRDs are what API servers and kubectl take."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.generate_crds import REPOSITORY, generated, write
from shared.api.crd.definitions import custom_resource_definition
from shared.api.schema.catalogue import KINDS
from shared.api.schema.kinds import Resource
from tests.support.cluster.fixture import embedded_api_server, write_kubeconfig
from tests.support.cluster.structural_rules import (
    cost_faults,
    default_faults,
    nodes,
    rule_faults,
    structure_faults,
)
from tests.support.texts.documents import documents

CRDS = REPOSITORY / "deploy" / "crds"
CHART = REPOSITORY / "deploy" / "chart-crds" / "templates"
RULES = ["deploy/iam/rules.json", "deploy/iam/cloudformation.yaml"]
NAMES = [
    *RULES,
    "docs/reference.md",
    *sorted(f"deploy/crds/{path.name}" for path in CRDS.iterdir()),
    *sorted(f"deploy/chart-crds/templates/{path.name}" for path in CHART.iterdir()),
]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.INFO.kind)


@functools.cache
def schema_of(kind: type[Resource]) -> dict[str, Any]:
    """Of all its versions: they differ in nothing but their names."""
    version, *others = custom_resource_definition(kind)["spec"]["versions"]
    assert all(other["schema"] == version["schema"] for other in others)
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    """What the generator writes, by path."""
    return dict(generated())


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_generated_file_is_what_the_models_say(name: str, files: dict[str, str]) -> None:
    assert (REPOSITORY / name).read_text(encoding="utf-8") == files[name], "run make crds"


def test_every_crd_belongs_to_a_kind(files: dict[str, str]) -> None:
    assert set(NAMES) == set(files), "remove files of kinds that are gone"


@pytest.mark.slow
def test_the_generator_writes_the_same_bytes_anywhere(
    tmp_path: Path, files: dict[str, str]
) -> None:
    write(tmp_path)
    for name, content in files.items():
        assert (tmp_path / name).read_bytes() == content.encode()
        assert b"\r" not in content.encode()


@each_kind
def test_the_schema_is_structural(kind: type[Resource]) -> None:
    assert list(structure_faults(schema_of(kind))) == []


@each_kind
def test_defaults_are_valid_and_known(kind: type[Resource]) -> None:
    assert list(default_faults(schema_of(kind))) == []


@each_kind
def test_rules_compile_and_name_fields(kind: type[Resource]) -> None:
    assert list(rule_faults(schema_of(kind))) == []


@each_kind
def test_what_rules_walk_is_bounded(kind: type[Resource]) -> None:
    """An API server refuses a CRD whose rules may cost too much."""
    assert list(cost_faults(schema_of(kind))) == []


@each_kind
def test_every_field_is_described(kind: type[Resource]) -> None:
    silent = [
        path
        for path, node in nodes(schema_of(kind))
        if path != "metadata" and not path.endswith(("[]", ".*")) and not node.get("description")
    ]
    assert silent == []


@each_kind
def test_the_names_of_columns_differ(kind: type[Resource]) -> None:
    names = [column.name for column in kind.INFO.columns]
    assert len(names) == len(set(names))


Kubectl = Callable[..., str]
"""Words of a kubectl command line, and perhaps ``stdin``, to what it prints."""


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """The real kubectl, on a server to which deploy/crds was applied with it."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on PATH; install it to try the CRDs with the real client")
    home = tmp_path_factory.mktemp("kubectl")
    with embedded_api_server() as url:
        config = write_kubeconfig(home / "kubeconfig", url)

        def run(*words: str, stdin: str = "") -> str:
            environment = {
                "KUBECONFIG": str(config),
                "HOME": str(home),
                "PATH": "/usr/bin:/usr/local/bin",
            }
            done = subprocess.run(
                ["kubectl", *words],
                env=environment,
                input=stdin,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        run("apply", "-f", str(CRDS))
        yield run


@pytest.mark.slow
def test_the_server_serves_every_kind(kubectl: Kubectl) -> None:
    lines = kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    assert len(lines.splitlines()) == len(KINDS)


def test_a_second_apply_changes_nothing(kubectl: Kubectl) -> None:
    lines = kubectl("apply", "-f", str(CRDS)).splitlines()
    assert len(lines) == len(KINDS)
    assert [line for line in lines if not line.endswith(" unchanged")] == []


def test_explain_shows_the_descriptions_of_fields(kubectl: Kubectl) -> None:
    text = kubectl("explain", "nodepool.spec.disruption.budgets")
    (definition,) = documents(CRDS / "karpenter.sh_nodepools.yaml")
    (version,) = definition["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    field = spec["disruption"]["properties"]["budgets"]
    shown = " ".join(text.split())
    assert field["description"] in shown
    for name, below in field["items"]["properties"].items():
        assert name in shown
        assert below["description"] in shown


CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
SMALL = {
    "NodePool": {"template": {"spec": {"requirements": [], "nodeClassRef": CLASS}}},
    "NodeClaim": {"requirements": [], "nodeClassRef": CLASS},
    "Provisioner": {"providerRef": {"name": "default"}},
    "Machine": {"requirements": []},
}
"""The least that these kinds must say in their spec."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "heading"),
    [
        ("NodePool", "NAME NODECLASS NODES READY AGE WEIGHT CPU MEMORY"),
        (
            "NodeClaim",
            "NAME TYPE CAPACITY ZONE NODE READY AGE IMAGEID ID NODEPOOL NODECLASS DRIFTED",
        ),
        ("Provisioner", "NAME TEMPLATE WEIGHT"),
        ("Machine", "NAME TYPE ZONE NODE READY AGE CAPACITY PROVISIONER TEMPLATE"),
    ],
)
def test_get_wide_shows_the_columns(kubectl: Kubectl, kind: str, heading: str) -> None:
    """NP-14, NC-04, P-14, M-04; kubectl prints no heading for an empty list, so there is one object."""
    (info,) = [one.INFO for one in KINDS if one.INFO.kind == kind]
    document = {
        "apiVersion": info.api_version,
        "kind": kind,
        "metadata": {"name": "small"},
        "spec": SMALL[kind],
    }
    kubectl("apply", "-f", "-", stdin=json.dumps(document))
    table = kubectl("get", info.plural, "-o", "wide").splitlines()
    assert table[0].split() == heading.split()
    assert table[1].startswith("small ")
