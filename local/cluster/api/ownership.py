"""Server-side apply: the owner of each field, and the effect of one manager's new intent on the object.

Ownership is kept only for objects that were applied server-side, as ``metadata.managedFields`` in the real format
(FieldsV1). As on a real server, an object without it gets a manager ``before-first-apply`` that owns everything. Lists
merged by a key are owned entry by entry; every other list is one leaf. Status written through its subresource is not
tracked. Source: KEP-555.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import orjson

from local.cluster.api.errors import ApiError
from local.cluster.api.patches import list_key
from local.cluster.crd.schemas import Schema
from local.cluster.storage.watches import Document

Path = tuple[str, ...]
"""Elements as in FieldsV1:

``f:name`` for a field, ``k:{...}`` for a list entry, ``.`` for the entry itself.
"""

OWNABLE_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")
BEFORE = "before-first-apply"
MORE_KEYS = {"ports": ("protocol",), "topologySpreadConstraints": ("whenUnsatisfiable",)}
"""Beside the merge key of strategic patches, which have only one."""
KEY_DEFAULTS = {"protocol": "TCP"}


@dataclass(frozen=True)
class FieldTypes:
    """Merge types of the lists below a field: by schema for custom resources, by name for built-in kinds."""

    schema: Schema | None
    name: str = ""

    def field(self, name: str) -> FieldTypes:
        """The types below field ``name``."""
        if self.schema is None:
            return FieldTypes(None, name)
        part = (self.schema.get("properties") or {}).get(name)
        additional = self.schema.get("additionalProperties")
        return FieldTypes(part or (additional if isinstance(additional, dict) else {}), name)

    def entry(self) -> FieldTypes:
        """The types inside one entry of this list."""
        return FieldTypes(None if self.schema is None else self.schema.get("items") or {}, "")

    def keys(self, entries: list[Any]) -> tuple[str, ...]:
        """The fields that identify an entry; empty when the list is one leaf."""
        if self.schema is None:
            key = list_key(self.name, entries)
            return (key, *MORE_KEYS.get(self.name, ())) if key else ()
        if self.schema.get("x-kubernetes-list-type") != "map":
            return ()
        return tuple(self.schema.get("x-kubernetes-list-map-keys") or ())


@dataclass(frozen=True)
class Manager:
    """One entry of managedFields."""

    name: str
    operation: str
    api_version: str
    time: str
    paths: frozenset[Path]

    def entry(self) -> Document:
        """The entry as it is stored."""
        return {
            "manager": self.name,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": _tree(self.paths),
        }

    def without(self, paths: frozenset[Path]) -> Manager:
        """This manager without ``paths``."""
        return replace(self, paths=self.paths - paths)


def _tree(paths: frozenset[Path]) -> Document:
    tree: Document = {}
    for path in sorted(paths):
        node = tree
        for element in path:
            node = node.setdefault(element, {})
    return tree


def _leaves_of_tree(tree: Document, path: Path = ()) -> Iterator[Path]:
    for element, below in tree.items():
        if below:
            yield from _leaves_of_tree(below, (*path, element))
        else:
            yield (*path, element)


def managers(document: Document) -> list[Manager]:
    """The managers of a stored object."""
    return [
        Manager(
            entry.get("manager", ""),
            entry.get("operation", "Update"),
            entry.get("apiVersion", ""),
            entry.get("time", ""),
            frozenset(_leaves_of_tree(entry.get("fieldsV1") or {})),
        )
        for entry in document["metadata"].get("managedFields") or []
    ]


def _entry_element(entry: Document, keys: tuple[str, ...]) -> str:
    named = {key: _part_of_key(entry, key) for key in keys}
    return "k:" + orjson.dumps(named, option=orjson.OPT_SORT_KEYS).decode()


def _part_of_key(entry: Document, key: str) -> Any:
    return entry.get(key, KEY_DEFAULTS.get(key))


def refuse_doubled_entries(config: Document, types: FieldTypes, place: str) -> None:
    """Raises the ApiError of a real server for two entries of one list with the same key. ``place``: of the object."""
    doubled = next(_doubled(ownable(config), types, ()), None)
    if doubled is not None:
        path, key = field_text(doubled[:-1]), field_text(doubled[-1:])
        text = f"failed to create typed patch object ({place}): {path}: duplicate entries for key {key}"
        raise ApiError(500, "", text)


def _doubled(value: Any, types: FieldTypes, path: Path) -> Iterator[Path]:
    """The path of each entry whose key an earlier one has."""
    if isinstance(value, dict):
        for name, below in value.items():
            yield from _doubled(below, types.field(name), (*path, f"f:{name}"))
    keys = types.keys(value) if isinstance(value, list) else ()
    seen: set[str] = set()
    for entry in value if keys else ():
        element = _entry_element(entry, keys)
        if element in seen:
            yield (*path, element)
        seen.add(element)
        yield from _doubled(entry, types.entry(), (*path, element))


def _leaves(value: Any, types: FieldTypes, path: Path) -> Iterator[Path]:
    keys = types.keys(value) if isinstance(value, list) else ()
    if isinstance(value, dict) and value:
        for name, below in value.items():
            if below is None:
                continue
            yield from _leaves(below, types.field(name), (*path, f"f:{name}"))
    elif keys:
        for entry in value:
            place = (*path, _entry_element(entry, keys))
            yield (*place, ".")
            yield from _leaves(entry, types.entry(), place)
    else:
        yield path


def ownable(document: Document) -> Document:
    """The part of an object that managers can own: without identity and status."""
    metadata = document.get("metadata") or {}
    kept = {name: metadata[name] for name in OWNABLE_METADATA if metadata.get(name)}
    hidden = ("apiVersion", "kind", "metadata", "status")
    part = {name: value for name, value in document.items() if name not in hidden}
    return {**part, "metadata": kept} if kept else part


def owned_paths(document: Document, types: FieldTypes) -> frozenset[Path]:
    """Every leaf of the ownable part."""
    part = ownable(document)
    return frozenset(_leaves(part, types, ())) if part else frozenset()


_MISSING = object()


def value_at(document: Any, path: Path) -> Any:
    """The value of a leaf, or a marker unequal to every value when it is missing."""
    for element in path:
        if element == ".":
            return True
        if element.startswith("f:"):
            found = document.get(element[2:], _MISSING) if isinstance(document, dict) else _MISSING
        else:
            found = _find_entry(document, orjson.loads(element[2:]))
        if found is _MISSING:
            return _MISSING
        document = found
    return document


def _find_entry(entries: Any, named: Document) -> Any:
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and all(_part_of_key(entry, k) == v for k, v in named.items()):
            return entry
    return _MISSING


def applied(
    live: Document, config: Document, types: FieldTypes, author: Manager, *, force: bool
) -> Document:
    """``live`` after ``author`` (paths not filled in yet) applied ``config``.

    Raises ApiError 409 that names every field that another manager set to another value, unless ``force``.
    """
    intent = owned_paths(config, types)
    everyone = managers(live) or [
        Manager(BEFORE, "Update", author.api_version, author.time, owned_paths(live, types))
    ]
    mine = [m for m in everyone if m.name == author.name and m.operation == "Apply"]
    others = [m for m in everyone if m not in mine]
    contested = _conflicts(live, config, intent, others)
    if contested and not force:
        raise _conflict(contested)
    merged = _merge(live, {**ownable(config), "metadata": config.get("metadata") or {}}, types)
    lost = frozenset(path for _, path in contested)
    kept = [manager.without(lost) for manager in others]
    still_owned = frozenset[Path]().union(intent, *(manager.paths for manager in kept))
    for path in sorted(frozenset[Path]().union(*(m.paths for m in mine)) - still_owned):
        merged = _removed(merged, path)
    me = replace(author, operation="Apply", paths=intent)
    return _with_managers(merged, live, [*(m for m in kept if m.paths), me])


def _with_managers(document: Document, live: Document, entries: list[Manager]) -> Document:
    before = {(m.name, m.operation): m for m in managers(live)}
    settled = []
    for manager in entries:
        old = before.get((manager.name, manager.operation))
        # An apply without changes keeps its time, so that the store sees no change and writes nothing.
        settled.append(old if old and old.paths == manager.paths else manager)
    fields = [manager.entry() for manager in settled]
    return {**document, "metadata": {**document["metadata"], "managedFields": fields}}


def _conflicts(
    live: Document, config: Document, intent: frozenset[Path], others: list[Manager]
) -> list[tuple[str, Path]]:
    return [
        (manager.name, path)
        for manager in others
        for path in sorted(intent & manager.paths)
        if path[-1] != "." and _differ(value_at(live, path), value_at(config, path))
    ]


def _differ(present: Any, configured: Any) -> bool:
    # An empty object in a configuration means "this object exists", not "it is empty".
    if configured == {} and isinstance(present, dict):
        return False
    return bool(present != configured)


def field_text(path: Path) -> str:
    """``.spec.containers[name="app"].image``."""
    text = ""
    for element in path:
        if element.startswith("f:"):
            text += f".{element[2:]}"
        elif element.startswith("k:"):
            pairs = orjson.loads(element[2:]).items()
            text += "[" + ",".join(f"{k}={orjson.dumps(v).decode()}" for k, v in pairs) + "]"
    return text


def _conflict(contested: list[tuple[str, Path]]) -> ApiError:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f'conflict with "{name}"',
            "field": field_text(path),
        }
        for name, path in contested
    ]
    count = f"{len(causes)} conflict" + ("s" if len(causes) > 1 else "")
    shown = ", ".join(f"{cause['message']}: {cause['field']}" for cause in causes)
    message = f"Apply failed with {count}: {shown}"
    return ApiError(409, "Conflict", message, {"causes": causes})


def _merge(live: Any, config: Any, types: FieldTypes) -> Any:
    if isinstance(config, dict):
        merged = dict(live) if isinstance(live, dict) else {}
        for name, value in config.items():
            if value is None:
                continue
            merged[name] = _merge(merged.get(name), value, types.field(name))
        return merged
    keys = types.keys(config) if isinstance(config, list) else ()
    if not keys or not isinstance(live, list):
        return config
    entries = {_entry_element(entry, keys): entry for entry in live}
    for entry in config:
        place = _entry_element(entry, keys)
        entries[place] = _merge(entries.get(place), entry, types.entry())
    return list(entries.values())


def _removed(document: Any, path: Path) -> Any:
    value = value_at(document, path)
    if value is _MISSING or (value and isinstance(value, dict)):
        return document
    head, rest = path[0], path[1:]
    if head.startswith("f:"):
        name = head[2:]
        below = _removed(document[name], rest) if rest else None
        left = {key: value for key, value in document.items() if key != name}
        return {**document, name: below} if below else left
    found = _find_entry(document, orjson.loads(head[2:]))
    below = _removed(found, rest) if rest and rest != (".",) else None
    return [below if e is found else e for e in document if e is not found or below]


def transferred(old: Document, new: Document, types: FieldTypes, author: Manager) -> Document:
    """``new`` with the changed fields owned by ``author``; only for objects that have managers."""
    everyone = managers(new)
    if not everyone or old is new:
        return new
    paths = owned_paths(new, types)
    changed = frozenset(p for p in paths if value_at(old, p) != value_at(new, p))
    removed = owned_paths(old, types) - paths
    if not changed and not removed:
        return new
    own = (author.name, "Update")
    kept = [m.without(changed | removed) for m in everyone if (m.name, m.operation) != own]
    previous = [m.paths - removed for m in everyone if (m.name, m.operation) == own]
    mine = changed.union(*previous)
    me = replace(author, operation="Update", paths=mine)
    return _with_managers(new, old, [m for m in [*kept, me] if m.paths])
