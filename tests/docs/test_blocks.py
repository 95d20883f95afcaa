"""Every code block of README and docs is something that a reader can copy: it can be read by a shell, its commands and
options exist, its manifests are right, and a comment says whether a test runs it (tests/docs/test_block_runs.py).
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared.api import registry
from tests.support.texts import blocks as texts
from tests.support.texts.blocks import Block, all_blocks
from tests.support.texts.builtin_fields import unknown_fields
from tests.support.texts.known_programs import fault
from tests.support.texts.shell_lines import calls, functions, here_documents, logical_lines

BLOCKS = all_blocks()
SHELL = [block for block in BLOCKS if block.is_shell]
MANIFESTS = [block for block in BLOCKS if block.language in ("yaml", "json")]


def test_the_blocks_are_found() -> None:
    assert len(SHELL) > 60
    assert len(MANIFESTS) > 12
    assert len({block.page for block in SHELL}) > 15


def test_a_comment_says_where_each_shell_block_runs() -> None:
    places = {"here", "stack", "account", "engine", *(f"no: {reason}" for reason in texts.NEEDS)}
    assert {block.name: block.where for block in SHELL if block.where not in places} == {}


def test_a_shell_can_read_each_block() -> None:
    """All pages in one call: a function for each block, so that a fault names its line."""
    script = "".join(f": {block.name}\n{block.commands}" for block in SHELL)
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run(
        [bash, "-n"], input=script, capture_output=True, text=True, timeout=60, check=False
    )
    lines = script.splitlines()
    places = [
        lines[int(line.split("line ")[1].split(":")[0]) - 1] for line in done.stderr.splitlines()
    ]
    assert (done.returncode, done.stderr, places) == (0, "", [])


def faults_of(block: Block) -> list[str]:
    """What is wrong with the commands of a block; functions that it defines itself are known."""
    own = functions(block.commands)
    found = [words for line in logical_lines(block.commands) for words in calls(line)]
    return [wrong for words in found if words[0] not in own and (wrong := fault(words))]


@pytest.mark.slow
def test_every_command_and_option_exists() -> None:
    assert {block.name: wrong for block in SHELL if (wrong := faults_of(block))} == {}


@pytest.mark.parametrize(
    "line",
    [
        "make fly",
        "aws eks create-cluster --colour red",
        "aws eks build-cluster",
        "eksctl create cluster --colour red",
        "eksctl dance",
        "rm -rf /",
        *(
            ["kubectl get pods --colour red", "kubectl gett pods"]
            if shutil.which("kubectl")
            else []
        ),
        "x=$(kubectl gett pods)" if shutil.which("kubectl") else "x=$(make fly)",
    ],
)
def test_what_does_not_exist_is_found(line: str) -> None:
    assert [found for words in calls(line) if (found := fault(words))]


@pytest.mark.parametrize(
    "line",
    [
        "FEATURE_GATES=StaticCapacity=true dovetail up --detach && source .dovetail/env",
        "aws eks create-pod-identity-association --cluster-name a --namespace b --service-account c --role-arn d",
        'kubectl get nodes -l a=b -o jsonpath="{.items[0].metadata.name}"',
        "docker compose run --rm dovetail cloud interrupt spot --all",
    ],
)
def test_what_exists_is_taken(line: str) -> None:
    assert [found for words in calls(line) if (found := fault(words))] == []


def objects(block: Block) -> list[Any]:
    """The documents of a block, those of a List one by one; pieces of a manifest are none."""
    read = (
        [json.loads(block.text)]
        if block.language == "json"
        else list(yaml.safe_load_all(block.text))
    )
    whole = [one for one in read if isinstance(one, dict) and {"apiVersion", "kind"} <= one.keys()]
    return [item for one in whole for item in (one["items"] if one["kind"] == "List" else [one])]


def in_here_documents(block: Block) -> list[Any]:
    """The objects that a shell block writes to a manifest or gives to kubectl."""
    texts_of = (
        re.sub(r"\$\{?\w+\}?", "value", body)
        for line, body in here_documents(block.commands)
        if "kubectl" in line or ".yaml" in line
    )
    return [one for text in texts_of for one in yaml.safe_load_all(text)]


def manifest_faults(document: Any) -> list[str]:
    group = document["apiVersion"].rpartition("/")[0]
    if group in registry.GROUPS:
        return [f"{one.path}: {one.message}" for one in registry.check(document)]
    return unknown_fields(document)


def test_every_manifest_is_right() -> None:
    """Fields of Kubernetes' own kinds are checked by their names; of other projects' kinds only that they are YAML."""
    written = [(block, one) for block in MANIFESTS for one in objects(block)]
    written += [(block, one) for block in SHELL for one in in_here_documents(block)]
    assert len(written) > 15
    wrong = {block.name: found for block, one in written if (found := manifest_faults(one))}
    assert wrong.keys() == {block.name for block in MANIFESTS if block.faulty}, wrong


CLUSTER_CONFIG = {
    "": {"apiVersion", "kind", "metadata", "iam", "addons", "managedNodeGroups"},
    "metadata": {"name", "region", "version", "tags"},
    "iam": {"withOIDC"},
    "addons": {"name"},
    "managedNodeGroups": {
        *("name", "instanceType", "amiFamily", "desiredCapacity", "minSize", "maxSize"),
    },
}
"""Fields of the JSON schema of eksctl 0.215, as far as the documents use them."""


def test_fields_of_a_cluster_for_eksctl_are_those_of_its_schema() -> None:
    found = [one for block in SHELL for one in in_here_documents(block)]
    configs = [one for one in found if one["apiVersion"] == "eksctl.io/v1alpha5"]
    assert configs
    for config in configs:
        assert config.keys() <= CLUSTER_CONFIG[""]
        for name in config.keys() & CLUSTER_CONFIG.keys():
            parts = config[name] if isinstance(config[name], list) else [config[name]]
            assert {field for part in parts for field in part} <= CLUSTER_CONFIG[name]


@pytest.mark.skipif(shutil.which("terraform") is None, reason="terraform is not installed")
def test_terraform_can_read_its_files(tmp_path: Path) -> None:
    """And they look as it would write them. It reads the syntax alone: modules and providers would be fetched."""
    files = [
        body for block in SHELL for line, body in here_documents(block.commands) if ".tf" in line
    ]
    assert files
    for number, text in enumerate(files):
        (tmp_path / f"{number}.tf").write_text(text)
    done = subprocess.run(
        ["terraform", "fmt", "-check", "-diff", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_a_wrong_manifest_is_found() -> None:
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "a"},
        "spec": {"limit": {}},
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"container": []}}
    assert manifest_faults(pool)
    assert manifest_faults(pod) == ["spec.container: unknown field"]


def test_blocks_and_their_comments_are_read() -> None:
    page = (
        "<!-- blocks: stack -->\ntext\n```sh\na\n```\n<!-- run: here -->\n\n"
        "```console\n$ b\nc\n```\n<!-- file: x.yaml -->\n```yaml\nd: 1\n```\n"
    )
    found = [(one.line, one.commands, one.where, one.file) for one in texts.blocks("page", page)]
    assert found == [
        (3, "a\n", "stack", ""),
        (8, "b\n", "here", ""),
        (13, "d: 1\n", "stack", "x.yaml"),
    ]
