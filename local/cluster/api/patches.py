"""The three patch formats of the API, as functions from a document and a patch to a new document.

JSON merge patch is RFC 7386, JSON patch RFC 6902, and strategic merge patch is the Kubernetes design document
"Strategic Merge Patch" with the merge keys of the built-in types. Documents are not changed in place; unchanged parts
are shared. A list that is missing in ``MERGE_KEYS`` is replaced as a whole, as for types without patch tags.
"""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch

from local.cluster.api.errors import ApiError, bad_request, not_decoded

MERGE_KEYS: dict[str, tuple[str, ...]] = {
    "addresses": ("type",),
    "conditions": ("type",),
    "containers": ("name",),
    "env": ("name",),
    "ephemeralContainers": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "ownerReferences": ("uid",),
    "ports": ("containerPort", "port"),
    "resourceClaims": ("name",),
    "schedulingGates": ("name",),
    "secrets": ("name",),
    "topologySpreadConstraints": ("topologyKey",),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}
"""The merge keys of lists, by the list's name. ``taints`` and ``tolerations`` are deliberately atomic: with a merge key
``kubectl taint node x key-`` would silently do nothing.
"""

SETS = frozenset({"finalizers"})
"""Lists of plain values to which a strategic patch adds."""

_PRIMITIVE_DELETE = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def json_patch(document: dict[str, Any], operations: Any) -> dict[str, Any]:
    """RFC 6902.

    Raises ApiError 422 for a failed test or a missing path, 400 for a malformed patch.
    """
    if not isinstance(operations, list):
        raise not_decoded(operations, "[]handlers.jsonPatchOp")
    try:
        patched = jsonpatch.apply_patch(copy.deepcopy(document), operations)
    except jsonpatch.InvalidJsonPatch as error:
        raise bad_request(f"error decoding patch: {error}") from error
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        message = "the server rejected our request due to an error in our request"
        raise ApiError(422, "Invalid", message) from error
    if not isinstance(patched, dict):
        raise bad_request("the patch replaces the whole object by something that is no object")
    return patched


def strategic_merge(target: Any, patch: Any) -> Any:
    """Strategic merge patch with ``$patch``, ``$deleteFromPrimitiveList``, ``$setElementOrder``, ``$retainKeys``."""
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {name: value for name, value in patch.items() if name != "$patch"}
    merged = dict(target) if isinstance(target, dict) else {}
    if "$retainKeys" in patch:
        merged = {name: merged[name] for name in merged if name in patch["$retainKeys"]}
    for name, value in patch.items():
        if name.startswith(_PRIMITIVE_DELETE):
            _delete_primitives(merged, name.removeprefix(_PRIMITIVE_DELETE), value)
        elif not name.startswith("$"):
            _merge_field(merged, name, value, patch.get(_ORDER + name))
    return merged


def _delete_primitives(merged: dict[str, Any], name: str, values: list[Any]) -> None:
    merged[name] = [value for value in merged.get(name) or [] if value not in values]


def _merge_field(merged: dict[str, Any], name: str, value: Any, order: list[Any] | None) -> None:
    if value is None:
        merged.pop(name, None)
    elif isinstance(value, list):
        merged[name] = _merge_list(name, merged.get(name) or [], value, order)
    elif isinstance(value, dict) and value.get("$patch") == "delete":
        merged.pop(name, None)
    else:
        merged[name] = strategic_merge(merged.get(name), value)


def _merge_list(
    name: str, current: list[Any], patch: list[Any], order: list[Any] | None
) -> list[Any]:
    if name in SETS:
        return list(dict.fromkeys([*current, *patch]))
    key = list_key(name, [*patch, *current])
    if key is None:
        return [strategic_merge({}, entry) for entry in patch]
    if any(entry.get("$patch") == "replace" for entry in patch):
        return [entry for entry in patch if "$patch" not in entry]
    merged = {entry[key]: entry for entry in current if key in entry}
    for entry in patch:
        if entry.get("$patch") == "delete":
            merged.pop(entry.get(key), None)
        else:
            merged[entry.get(key)] = strategic_merge(merged.get(entry.get(key)), entry)
    return _ordered(list(merged.values()), key, order)


def _ordered(entries: list[Any], key: str, order: list[Any] | None) -> list[Any]:
    if not order:
        return entries
    place = {entry.get(key): index for index, entry in enumerate(order) if isinstance(entry, dict)}
    return sorted(entries, key=lambda entry: place.get(entry.get(key), len(place)))


def list_key(name: str, entries: list[Any]) -> str | None:
    """The merge key of list ``name``; None for a list that is replaced as a whole."""
    if not entries or not all(isinstance(entry, dict) for entry in entries):
        return None
    return next((key for key in MERGE_KEYS.get(name, ()) if key in entries[0]), None)
