"""What a person does with a proposed edit: writes it into the manifest, by its field, action and value alone."""

from __future__ import annotations

import copy
import re
from typing import Any

Document = dict[str, Any]


def edited(documents: list[Document], edits: list[Document]) -> list[Document]:
    """Copies of the manifests with the edits; list indices are those before any edit, so the highest goes first."""
    found = copy.deepcopy(documents)
    for edit in sorted(edits, key=lambda one: str(one["value"]), reverse=True):
        kind, _, name = edit["object"].partition(" ")
        matching = [
            one
            for one in found
            if one["kind"] == kind and one["metadata"]["name"] == name.rpartition("/")[2]
        ]
        (document,) = matching
        _write(document, edit)
    return found


def _write(document: Document, edit: Document) -> None:
    field, value = edit["field"], edit["value"]
    if field.endswith(".requirements"):
        _require(_at(document, field, []), value)
    elif "nodeAffinity" in field:
        _drop_expressions(document["spec"]["affinity"]["nodeAffinity"], value)
    elif edit["action"] == "add":
        _add(document, field, value)
    elif edit["action"] == "set":
        holder, last = _holder(document, field)
        holder[last] = value
    elif value is None:
        holder, last = _holder(document, field)
        del holder[last]
    else:
        del _at(document, field, None)[value]


def _require(requirements: list[Document], entries: list[Document]) -> None:
    key = entries[0]["key"]
    requirements[:] = [one for one in requirements if one["key"] != key] + entries


def _drop_expressions(affinity: Document, key: str) -> None:
    required = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
    for term in required["nodeSelectorTerms"]:
        term["matchExpressions"] = [e for e in term["matchExpressions"] if e["key"] != key]
    if not all(term["matchExpressions"] for term in required["nodeSelectorTerms"]):
        del affinity["requiredDuringSchedulingIgnoredDuringExecution"]


def _add(document: Document, field: str, value: Any) -> None:
    if isinstance(value, dict) and field.endswith("labels"):
        _at(document, field, {}).update(value)
    else:
        _at(document, field, []).append(value)


def _at(document: Document, field: str, missing: Any) -> Any:
    holder, last = _holder(document, field)
    return holder.setdefault(last, missing) if isinstance(holder, dict) else holder[last]


def _holder(document: Document, field: str) -> tuple[Any, Any]:
    """The parent of the field and the name in it. ``containers[]`` is the only container; names may contain dots only
    behind ``requests``, ``limits`` and ``resources``, which are the last maps of their paths."""
    head, mark, resource = field.rpartition(".requests.")
    if not mark:
        head, mark, resource = field.rpartition("limits.resources.")
        mark = mark and "limits.resources."
    if not mark:
        head, mark, resource = field.rpartition("spec.limits.")
        mark = mark and "spec.limits."
    path = f"{head}{mark}".strip(".").split(".") if mark else field.split(".")[:-1]
    last: Any = resource if mark else field.split(".")[-1]
    found: Any = document
    for part in path:
        name, index = re.fullmatch(r"([^\[]+)(?:\[(\d*)\])?", part).groups()  # type: ignore[union-attr]
        found = found.setdefault(name, {})
        if index is not None:
            found = found[int(index or 0)]
    return found, last
