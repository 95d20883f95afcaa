"""The examples of the commands' help texts, which docs/commands.md repeats, run on a stack that has what they name.

What an example only names (a pod, a node, a decision, an instance) is there under the same name, or is replaced by one
that is there. Examples that other tests run, or that wait for a person, are left out, each with its reason.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster.helm import NEEDS_HELM
from tests.support.cluster.kubectl import NEEDS_KUBECTL
from tests.support.processes import page_session
from tests.support.texts.blocks import Block, all_blocks

SECONDS = 2400.0
PAGE = "docs/commands.md"
FAILED = "::failed"
PREPARED = r"""
PROFILING=true dovetail up --detach
source .dovetail/env
mkdir -p cluster changes clusters chart/templates
kubectl apply -f cli/demo/manifests/v1 -f cli/demo/manifests/inflate.yaml
kubectl create namespace shop
kubectl run web-5c8d --namespace shop --image nginx --overrides \
  '{"spec": {"containers": [{"name": "web", "image": "nginx", "resources": {"requests": {"cpu": "500"}}}]}}'
kubectl scale deployment inflate --replicas 10
kubectl rollout status deployment inflate --timeout=180s
sed '0,/name: default/s//name: batch/' cli/demo/manifests/provisioner.yaml > pools.yaml
kubectl apply -f pools.yaml -f cli/demo/manifests/awsnodetemplate.yaml
cp cli/demo/manifests/awsnodetemplate.yaml classes.yaml
cp cli/demo/manifests/v1/nodepool.yaml pool.yaml
cp cli/demo/manifests/v1/*.yaml clusters
cp pool.yaml changes
cp pool.yaml cli/demo/manifests/inflate.yaml cluster
cp cli/demo/manifests/inflate.yaml pods.yaml
cp pool.yaml chart/templates
printf 'apiVersion: v2\nname: pools\nversion: 1.0.0\n' > chart/Chart.yaml
printf 'apiVersion: v1\nkind: List\nitems: []\n' > types.yaml
kubectl get nodepool default -o json > extra.json
kubectl get pods,nodes,nodepools,nodeclaims,ec2nodeclasses,pdb -A -o yaml > cluster.yaml
NODE=$(kubectl get nodes -l karpenter.sh/nodepool -o jsonpath='{.items[0].metadata.name}')
TYPE=$(kubectl get node "$NODE" -o jsonpath='{.metadata.labels.node\.kubernetes\.io/instance-type}')
ZONE=$(kubectl get node "$NODE" -o jsonpath='{.metadata.labels.topology\.kubernetes\.io/zone}')
MACHINE=$(kubectl get nodeclaims -o jsonpath='{.items[0].metadata.name}')
instance() {
  dovetail cloud reset > /dev/null
  local newest='[.[] | select(.state == "running")][-1].instanceId // empty'
  until dovetail cloud instances --json | jq -re "$newest"; do sleep 1; done
}
SUBNET=$(aws ec2 describe-subnets --query 'Subnets[0].SubnetId' --output text)
until dovetail decisions --from 1h | grep -Eq "[0-9a-f]{16}"; do sleep 2; done
DECISION=$(dovetail decisions --from 1h | grep -Eo "[0-9a-f]{16}" | head -n 1)
"""
"""What the examples name, as far as it can have their names. The shortages and faults of the examples before end when
one needs an instance: the last one may have been taken away, and nothing could be bought in its place."""
IN_PLACE_OF = {
    "ip-10-0-0-17.us-west-2.compute.internal": '"$NODE"',
    "--zone us-west-2a --type m5.xlarge": '--zone "$ZONE" --type "$TYPE"',
    "default-x7f2k": '"$MACHINE"',
    "1f3870be274f6c49": '"$DECISION"',
    "i-0123456789abcdef0": '"$(instance)"',
    "subnet-0123456789abcdef0": '"$SUBNET"',
    "--at 2h": "--at 30s",
    "--against 24h": "--against 30s",
}
LEFT_OUT = {
    "dovetail demo": "README.md runs it",
    "dovetail up": "docs/local/local-cluster.md runs it",
    "dovetail down": "docs/local/local-cluster.md runs it",
    "dovetail status --watch": "needs a terminal",
    "dovetail top": "needs a terminal",
    "dovetail top --once | grep draining": "no node drains",
    "dovetail cloud interrupt spot --zone": "of one instance there is no share",
    "dovetail cloud status --zone": "of one instance there is no share",
    "dovetail logs launcher --follow": "does not end",
    "dovetail approve ": "docs/operating/approval.md runs it",
    "dovetail reject ": "docs/operating/approval.md runs it",
    "dovetail migrate karpenter": "docs/migration/karpenter.md runs it",
    "dovetail shadow diff": "docs/operating/shadow.md runs it",
    "dovetail dead-letters replay launches 1": "there is no dead letter",
    "dovetail dead-letters drop interruptions 1": "there is no dead letter",
    "dovetail audit --watch": "docs/operating/audit.md runs it",
    "AWS_REGION=eu-central-1": "the emulator has one region",
    "kubectl apply -f cli/demo/manifests ": "docs/local/emulator.md runs it",
    "source ": "the stack is known already",
}
STILL_RUN = ("dovetail top -o json", "dovetail migrate karpenter -f")


def examples() -> Iterator[Block]:
    """A block for each example, which goes on when it fails and says so."""
    for block in all_blocks():
        if block.page == PAGE and block.is_shell:
            for number, line in enumerate(block.text.splitlines(), block.line + 1):
                if is_run(line):
                    text = f"{{ {with_names(line)}\n}} || echo '{FAILED}'\n"
                    yield Block(PAGE, number, "sh", text, "stack", "")


def is_run(line: str) -> bool:
    return line.startswith(STILL_RUN) or not line.startswith((*LEFT_OUT,))


def with_names(line: str) -> str:
    for example, name in IN_PLACE_OF.items():
        line = line.replace(example, name)
    return line


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield page_session.checkout(tmp_path)
    command = [str(Path(sys.executable).with_name("dovetail")), "down"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120, check=False)


def test_most_examples_run() -> None:
    assert len(list(examples())) > 80


@NEEDS_HELM
@NEEDS_KUBECTL
@pytest.mark.nightly
@pytest.mark.timeout(SECONDS + 300)
def test_every_example_does_what_it_says(folder: Path) -> None:
    parts = [Block(PAGE, 0, "sh", PREPARED, "stack", ""), *examples()]
    printed = page_session.run(folder, parts, SECONDS)
    lines = {block.name: block.text.splitlines()[0][2:] for block in parts}
    wrong = {name: text for name, text in printed.items() if FAILED in text or "Traceback" in text}
    assert not wrong, "\n".join(
        f"{name} {lines[name]}\n{text[-600:]}" for name, text in wrong.items()
    )
