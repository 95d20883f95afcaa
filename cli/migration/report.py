"""What becomes of each object of Karpenter when Dovetail takes over: pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from cli.migration.inventory import Inventory
from shared.api.conversion.relations import without_v1beta1
from shared.api.conversion.v1beta1_kinds import is_v1beta1
from shared.api.faults import field_text
from shared.api.registry import check, title_of
from shared.cloud.ec2.ownership import CLUSTER_NAME_TAG, GONE_STATES, cluster_tag
from shared.cloud.ec2.records import Instance
from shared.domain import labels as keys
from shared.domain.nodes import provider_instance_id
from shared.settings import AwsSettings, InterruptionSettings, LauncherSettings, SchedulerSettings
from shared.settings.reading import without_meaning

Json = Mapping[str, Any]
Verdict = Literal["kept", "changed", "by hand", "blocks"]
BLOCKS: Verdict = "blocks"
COMPATIBILITY = {
    "compatibility.karpenter.sh/v1beta1-kubelet-conversion": "kubelet settings that Karpenter 1.0 kept here; write "
    "them in spec.kubelet of the EC2NodeClass",
    "compatibility.karpenter.k8s.aws/v1beta1-ubuntu-conversion": "the family Ubuntu, which v1 does not have; write "
    "amiFamily, amiSelectorTerms and userData in the EC2NodeClass",
    "compatibility.karpenter.sh/v1beta1-nodeclass-reference": "not read: spec.template.spec.nodeClassRef has the same",
}
"""Annotations that Karpenter 1.0 wrote for what v1 has no field for, and what to do about them."""
HASHES = (
    keys.POOL_HASH, keys.POOL_HASH_VERSION, keys.CLASS_HASH, keys.CLASS_HASH_VERSION,
    keys.PROVISIONER_HASH, keys.NODE_TEMPLATE_HASH,
)  # fmt: skip
OLD_TAINT = "karpenter.sh/disruption"
"""v1beta1's key of the taint ``karpenter.sh/disrupted``."""
_SETTINGS = frozenset(
    name.upper()
    for model in (AwsSettings, LauncherSettings, SchedulerSettings, InterruptionSettings)
    for name in model.model_fields
)
_OF_THE_POD = ("KUBERNETES_", "AWS_", "SYSTEM_NAMESPACE")


@dataclass(frozen=True)
class Row:
    """One line of the report."""

    object: str
    """``NodePool/default``."""
    subject: str
    """The field, annotation or tag; empty for the object as a whole."""
    verdict: Verdict
    text: str


def report_of(inventory: Inventory, cluster: str) -> list[Row]:
    """Every row, blocks first. ``cluster``: its name in tags; empty: tags are not judged."""
    rows = [
        *_manifests([*inventory.pools, *inventory.classes]),
        *(row for claim in inventory.claims for row in claim_rows(claim, inventory, cluster)),
        *(row for one in inventory.deployments for row in _deployment(one)),
    ]
    return sorted(rows, key=lambda row: row.verdict != BLOCKS)


def as_json(rows: Iterable[Row]) -> list[dict[str, str]]:
    """The rows as JSON objects."""
    return [asdict(row) for row in rows]


def _manifests(documents: list[Json]) -> Iterable[Row]:
    for document, written in zip(documents, without_v1beta1(documents), strict=True):
        title = title_of(document)
        faults = check(document)
        for fault in faults:
            yield Row(title, field_text(fault.path), BLOCKS, fault.message)
        for note in written.notes:
            yield Row(title, field_text(note.path), "by hand", note.message)
        if is_v1beta1(document):
            text = "convert it: dovetail convert --to v1; a cluster must serve v1 (Karpenter 1.0 or newer)"
            yield Row(title, "apiVersion", BLOCKS, text)
        elif not faults:
            yield Row(title, "", "kept", "the same manifest")
        yield from _annotations(document)


def _annotations(document: Json) -> Iterable[Row]:
    held = document["metadata"].get("annotations") or {}
    for name, text in COMPATIBILITY.items():
        if name in held:
            unread = text.startswith("not read")
            shown = text if unread else f"{text}: {held[name]}"
            yield Row(title_of(document), name, "kept" if unread else "by hand", shown)
    if any(name in held for name in HASHES) and keys.HASHED_BY not in held:
        yield Row(title_of(document), "hashes", "changed", "computed anew; this is not drift")


def claim_rows(claim: Json, inventory: Inventory, cluster: str) -> list[Row]:
    """Whether a claim with its node and instance is taken over as it is."""
    title, status = title_of(claim), claim.get("status") or {}
    if claim["metadata"].get("deletionTimestamp"):
        return [Row(title, "", "kept", "it is being deleted; Dovetail completes the deletion")]
    provider_id = str(status.get("providerID") or "")
    if not provider_instance_id(provider_id):
        text = "it has no instance yet; wait until it is launched, or delete it"
        return [Row(title, "status.providerID", BLOCKS, text)]
    found = [
        *_owners(claim, inventory),
        *_node(claim, _node_of(inventory, provider_id), inventory),
        *_instance(claim, inventory, provider_instance_id(provider_id), cluster),
        *_drift(claim),
    ]
    if not any(row.verdict == BLOCKS for row in found):
        found.append(Row(title, "", "kept", "node and instance stay as they are"))
    return found


def _owners(claim: Json, inventory: Inventory) -> Iterable[Row]:
    if not inventory.live:
        return
    pool = pool_of(claim)
    if pool not in {title_of(one) for one in inventory.pools}:
        yield Row(
            title_of(claim), "metadata.labels", "by hand",
            f"its pool {pool or '(none)'} does not exist; nothing replaces it, delete it when its pods may move",
        )  # fmt: skip


def pool_of(claim: Json) -> str:
    """``NodePool/default`` or ``Provisioner/default``; empty for a claim without a pool."""
    held = claim["metadata"].get("labels") or {}
    for kind, label in (("NodePool", keys.NODE_POOL), ("Provisioner", keys.PROVISIONER_NAME)):
        if name := held.get(label):
            return f"{kind}/{name}"
    return ""


def _node_of(inventory: Inventory, provider_id: str) -> Json | None:
    nodes = (
        one for one in inventory.nodes if (one.get("spec") or {}).get("providerID") == provider_id
    )
    return next(nodes, None)


def _node(claim: Json, node: Json | None, inventory: Inventory) -> Iterable[Row]:
    title = title_of(claim)
    if node is None:
        if inventory.live and "Registered" in true_conditions(claim):
            text = "its node is gone: Dovetail would delete it as lost; delete it, or wait until Karpenter does"
            yield Row(title, "status.nodeName", BLOCKS, text)
        return
    if keys.FINALIZER not in (node["metadata"].get("finalizers") or ()):
        text = (
            f"its node lacks the finalizer {keys.FINALIZER}: kubectl delete node would not drain it"
        )
        yield Row(title, "metadata.finalizers", "by hand", text)
    if leftover_taints(node):
        text = (
            "Karpenter began to disrupt its node; the taint is removed, and Dovetail decides anew"
        )
        yield Row(title, "spec.taints", "changed", text)


def leftover_taints(node: Json) -> list[Json]:
    """The taints of a disruption that Karpenter began."""
    taints = (node.get("spec") or {}).get("taints") or []
    return [one for one in taints if one.get("key") in (keys.DISRUPTED_TAINT_KEY, OLD_TAINT)]


def _instance(claim: Json, inventory: Inventory, name: str, cluster: str) -> Iterable[Row]:
    if inventory.instances is None or not cluster:
        return
    instance = inventory.instances.get(name)
    if instance is None or instance.state in GONE_STATES:
        state = instance.state if instance else "unknown to EC2"
        yield Row(
            title_of(claim),
            name,
            BLOCKS,
            f"its instance is {state}; delete the claim, or check the region",
        )
        return
    for key, value in missing_tags(claim, instance, cluster).items():
        yield Row(title_of(claim), f"tag {key}", "changed", f"set to {value}")


def missing_tags(claim: Json, instance: Instance, cluster: str) -> dict[str, str]:
    """The tags that an instance of an older Karpenter lacks, without which garbage collection would not know it.

    Only a NodeClaim's: instances of v1alpha5 are never ended for their tags alone.
    """
    if claim.get("kind") != "NodeClaim":
        return {}
    reference = ((claim.get("spec") or {}).get("nodeClassRef") or {}).get("name", "")
    wanted = {
        CLUSTER_NAME_TAG: cluster,
        cluster_tag(cluster): "owned",
        keys.NODE_POOL: pool_of(claim).partition("/")[2],
        keys.NODE_CLASS: str(reference),
        keys.NODE_CLAIM_TAG: str(claim["metadata"]["name"]),
    }
    return {key: value for key, value in wanted.items() if value and key not in instance.tags}


def _drift(claim: Json) -> Iterable[Row]:
    drifted = conditions_of(claim).get("Drifted") or {}
    if drifted.get("status") == "True":
        reason = drifted.get("reason", "")
        yield Row(
            title_of(claim),
            "Drifted",
            "kept",
            f"it drifted before ({reason}) and is replaced later",
        )


def conditions_of(document: Json) -> dict[str, Json]:
    """The conditions by type; {} where there are none."""
    listed = (document.get("status") or {}).get("conditions") or ()
    return {one["type"]: one for one in listed if isinstance(one, Mapping) and "type" in one}


def true_conditions(document: Json) -> set[str]:
    """Types of the conditions that are True."""
    return {kind for kind, one in conditions_of(document).items() if one.get("status") == "True"}


def _deployment(deployment: Json) -> Iterable[Row]:
    title = title_of(deployment)
    template = ((deployment.get("spec") or {}).get("template") or {}).get("spec") or {}
    variables = {
        str(one["name"]): str(one.get("value", ""))
        for container in template.get("containers") or ()
        for one in container.get("env") or ()
        if isinstance(one, Mapping) and "value" in one and "name" in one
    }
    instead = without_meaning(variables)
    for name, value in sorted(variables.items()):
        if name in instead:
            yield Row(title, name, "changed", instead[name])
        elif name in _SETTINGS:
            yield Row(title, name, "kept", f"set {name}={value} for the services")
        elif value and not name.startswith(_OF_THE_POD):
            yield Row(title, name, "by hand", "Dovetail has no such setting")
