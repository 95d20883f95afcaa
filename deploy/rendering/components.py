"""What a value of the chart changes, as a component of kustomize: pure.

A component adds the objects that are new and patches those that differ. The patches are strategic merges, so they hold
when a user's own patches come first.
"""

from __future__ import annotations

from typing import Any

import yaml

Document = dict[str, Any]
MERGE_KEYS = ("name", "mountPath")
"""By one of these Kubernetes merges the lists that it does not replace: containers, volumes, environment, mounts."""
LINE_WIDTH = 120


def added(base: list[Document], variant: list[Document]) -> list[Document]:
    """Objects of ``variant`` that ``base`` has not."""
    known = {_address(one) for one in base}
    return [one for one in variant if _address(one) not in known]


def patches(base: list[Document], variant: list[Document]) -> list[Document]:
    """For every object that differs: who it is, and what the variant says otherwise.

    Raises ValueError for a field that is gone in the variant, which a merge cannot take away.
    """
    before = {_address(one): one for one in base}
    found = []
    for one in variant:
        old = before.get(_address(one), one)
        changed = difference(old, one)
        if changed:
            found.append({**_identity(one), **changed})
    return found


def component(head: str, resources: list[str], changes: list[Document]) -> str:
    """The text of its kustomization.yaml."""
    document: Document = {"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component"}
    if resources:
        document["resources"] = resources
    document["patches"] = [{"patch": _Block(dumped(one))} for one in changes]
    return head + yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=LINE_WIDTH)


def dumped(document: Document) -> str:
    """As YAML, in the order of its keys."""
    return yaml.safe_dump(document, sort_keys=False, width=LINE_WIDTH)


def difference(old: Any, new: Any) -> Any:
    """What a strategic merge over ``old`` must have so that it gives ``new``; empty: nothing."""
    if isinstance(old, dict) and isinstance(new, dict):
        if old.keys() - new.keys():
            raise ValueError(f"a merge cannot take away {sorted(old.keys() - new.keys())}")
        parts = {key: difference(old.get(key), value) for key, value in new.items()}
        return {key: part for key, part in parts.items() if part not in ({}, [], None)}
    if isinstance(old, list) and isinstance(new, list):
        return _difference_of_lists(old, new)
    return None if old == new else new


def _difference_of_lists(old: list[Any], new: list[Any]) -> list[Any]:
    key = _merge_key(new)
    if key is None:
        return [] if old == new else new
    before = {one[key]: one for one in old}
    found = []
    for one in new:
        changed = difference(before[one[key]], one) if one[key] in before else one
        if changed:
            found.append({key: one[key], **changed})
    return found


def _merge_key(elements: list[Any]) -> str | None:
    for key in MERGE_KEYS:
        named = [one[key] for one in elements if isinstance(one, dict) and key in one]
        if elements and len({*named}) == len(elements):
            return key
    return None


def _address(document: Document) -> tuple[str, str, str]:
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", ""), metadata["name"]


def _identity(document: Document) -> Document:
    kind, namespace, name = _address(document)
    place = {"namespace": namespace} if namespace else {}
    return {
        "apiVersion": document["apiVersion"],
        "kind": kind,
        "metadata": {"name": name, **place},
    }


class _Block(str):
    """A text that is written as a block."""


class _Dumper(yaml.SafeDumper):
    pass


_Dumper.add_representer(
    _Block, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|")
)
