"""``ledger cost`` and ``plan`` against a running cluster go by its NodeOverlays, as the scheduler does."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cli.main import commands
from local.cluster.storage.store import Store
from shared.concurrency.clock import SystemClock
from shared.domain import labels as keys
from shared.domain.instance_types.overlays import GATE_OFF_REASON
from tests.cli.decisions.plan.cluster_documents import node, pool
from tests.services.conftest import CRDS, our_definitions
from tests.shared.simulation.documents import Document, ec2_node_class
from tests.support.cluster.fixture import embedded_api_server, write_kubeconfig

PLURALS = {
    "NodePool": ("nodepools", "karpenter.sh"),
    "EC2NodeClass": ("ec2nodeclasses", "karpenter.k8s.aws"),
    "NodeClaim": ("nodeclaims", "karpenter.sh"),
    "NodeOverlay": ("nodeoverlays", "karpenter.sh"),
    "Node": ("nodes", ""),
}
LIST_PRICE, CORRECTED = 0.096, 0.05


@pytest.fixture
def store() -> Store:
    """One m5.large in us-east-1a, of a pool."""
    made = Store(SystemClock(), random.Random(7))
    for definition in our_definitions():
        made.create(CRDS.plural, definition, group=CRDS.group)
    for document in (pool(), ec2_node_class(), *node(1, pool(), cpu="")):
        put(made, document)
    return made


@pytest.fixture(autouse=True)
def kubeconfig(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All that the shell knows is the cluster."""
    for name in ("REDIS_URL", "CLUSTER_NAME"):
        monkeypatch.delenv(name, raising=False)
    with embedded_api_server(store=store) as url:
        monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "kubeconfig", url)))
        yield


def put(store: Store, document: Document) -> None:
    plural, group = PLURALS[document["kind"]]
    store.create(plural, document, group=group)
    if status := document.get("status"):
        store.patch(
            plural,
            document["metadata"]["name"],
            {"status": status},
            group=group,
            subresource="status",
        )


def overlay(**status: Any) -> Document:
    large = {"key": keys.INSTANCE_TYPE, "operator": "In", "values": ["m5.large"]}
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "discount"},
        "spec": {"requirements": [large], "price": str(CORRECTED)},
        **({"status": status} if status else {}),
    }


def ready(status: str, reason: str) -> Document:
    stamped = {"lastTransitionTime": "2020-01-01T00:00:00Z", "message": ""}
    return {"type": "Ready", "status": status, "reason": reason, **stamped}


def per_hour() -> float:
    done = CliRunner().invoke(commands, ["ledger", "cost", "-o", "json"])
    assert done.exit_code == 0, done.output
    found: float = json.loads(done.stdout)["perHour"]
    return found


def test_a_machine_costs_what_the_clusters_overlay_says(store: Store) -> None:
    """NO-01: the console and the scheduler said half of it."""
    assert per_hour() == pytest.approx(LIST_PRICE)
    put(store, overlay(conditions=[ready("True", "Ready")]))
    assert per_hour() == pytest.approx(CORRECTED)


def test_an_overlay_without_effect_changes_no_price(store: Store) -> None:
    """NO-01: with the gate off the launcher says so in its condition."""
    put(store, overlay(conditions=[ready("False", GATE_OFF_REASON)]))
    assert per_hour() == pytest.approx(LIST_PRICE)


def planned(document: Document) -> Result:
    return CliRunner().invoke(commands, ["plan", "-f", "-"], input=json.dumps(document))


def test_an_overlay_that_the_cluster_has_is_no_change(store: Store) -> None:
    """It was called new, and halved the cost."""
    put(store, overlay(conditions=[ready("True", "Ready")]))
    done = planned(overlay())
    assert done.exit_code == 0, done.output
    assert "NodeOverlay/discount" not in done.stdout
