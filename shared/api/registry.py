"""The kinds of Dovetail and the check of an object of each, for ``dovetail validate`` and ``convert``.

Checking is stricter than reading: a service ignores an unknown field, because a newer version may define it. Here an
unknown field is a fault, because in a file it is usually a typing error.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from shared.api.conversion.field_moves import place_of_field
from shared.api.conversion.v1beta1_kinds import NODE_POOL, POOL_KUBELET, is_v1beta1
from shared.api.crd.model import UNKNOWN_FIELD, UNKNOWN_FIELDS, read
from shared.api.faults import Fault, Path
from shared.api.label_rules import value_warnings
from shared.api.parsers import INSTANCE_TYPE, PARSERS, SCHEMAS, parser_of, schema_of, warner_of
from shared.api.schema.kinds import Resource
from shared.api.v1.auto_mode import is_of_others
from shared.api.v1alpha5.global_settings import NAME as SETTINGS_NAME
from shared.api.v1alpha5.global_settings import parse_global_settings
from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.pools.nodepools import NodePool as DomainPool

Json = Mapping[str, Any]
GROUPS = ("karpenter.sh", "karpenter.k8s.aws", "dovetail.sh")
SHARED_GROUP = "autoscaling.x-k8s.io"
CONFIG_MAP = ("v1", "ConfigMap")
LONGEST_NAME = 253
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_PLACEHOLDER = re.compile(
    r"\$\{[A-Za-z_][^{}\n]*\}|\$\([^()\n]+\)|\$[A-Z][A-Z0-9_]+|\{\{[^{}\n]+\}\}"
    r"|<<?[A-Za-z][A-Za-z0-9_. -]*>>?"
)
"""Of shells and Terraform, of Helm, and of guides for people."""
_VARIABLE = re.compile(r"\$\{?[A-Za-z_][A-Za-z0-9_]*\}?")
"""What ``envsubst`` replaces."""

_OUR_PREFIX = "dovetail.sh/"
_OUR_KEYS = sorted(
    one for one in vars(keys).values() if isinstance(one, str) and one.startswith(_OUR_PREFIX)
)


def check(document: Json) -> list[Fault]:
    """Every fault of an object of our kinds, by path: structure, rules, unknown fields, name. Never raises."""
    found = {_of_placeholder(document, fault) for fault in _check(document)}
    return sorted(found, key=lambda fault: (str(fault), fault.message))


def _of_placeholder(document: Json, fault: Fault) -> Fault:
    """The fault of a value that nobody replaced says that too: its form is wrong because of it."""
    value = _value_at(document, fault.path)
    other = fault.message.startswith(UNKNOWN_FIELD) or fault.path[-1:] == ("userData",)
    if other or not _is_placeholder(value):
        return fault
    return Fault(fault.path, f"{fault.message}; {_replace(str(value))}")


def _check(document: Json) -> list[Fault]:
    if identity(document) == CONFIG_MAP:
        return list(parse_global_settings(document).faults)
    if identity(document) == INSTANCE_TYPE:
        return [*_metadata_faults(document), *parser_of(INSTANCE_TYPE[1])(document).faults]
    if is_v1beta1(document):
        return _check_v1beta1(document)
    model = schema_of(identity(document))
    if model is None:
        return [_unknown_kind(*identity(document))]
    faults = [*_metadata_faults(document), *_structure_faults(model, document)]
    kind = identity(document)[1]
    if kind in _FURTHER_CHECKS and document.get("spec") is not None:
        # The parser finds the faults of the schema again, and others that a schema cannot express.
        known = {fault.path for fault in faults}
        faults += [one for one in parser_of(kind)(document).faults if one.path not in known]
    return sorted(set(faults), key=lambda fault: (str(fault), fault.message))


def _check_v1beta1(document: Json) -> list[Fault]:
    """The faults of the v1 object that Dovetail makes of it, at their places in v1beta1 (MAP-03)."""
    from shared.api.conversion import v1beta1  # few files have objects of v1beta1
    from shared.api.schema.kubelet import KubeletConfiguration

    made = v1beta1.upgraded(document)
    notes = {note.path: note.message for note in made.notes}
    found = v1beta1.own_faults(document)
    for fault in _check(made.document):
        path = v1beta1.place_in_v1beta1(document, fault.path)
        cause = f"{fault.message}; {notes[path]}" if path in notes else fault.message
        found.append(Fault(path, cause))
    at = POOL_KUBELET if identity(document) == NODE_POOL else ("spec", "kubelet")
    kubelet = read(KubeletConfiguration, made.kubelet, at=at, context=UNKNOWN_FIELDS)[1]
    found += [_with_place(identity(document), fault) for fault in kubelet]
    return sorted(set(found), key=lambda fault: (str(fault), fault.message))


def warnings(document: Json) -> list[Fault]:
    """Valid settings that are probably a mistake. Only for objects without faults. Never raises."""
    if is_v1beta1(document):
        from shared.api.conversion import v1beta1  # few files have objects of v1beta1

        return warnings(v1beta1.upgraded(document).document)
    if identity(document) == CONFIG_MAP:
        settings = parse_global_settings(document).record
        return list(settings.notes) if settings is not None else []
    return [
        *_warnings_of_kind(document),
        *_unknown_annotations(document),
        *_placeholders(document),
    ]


def _unknown_annotations(document: Json) -> Iterable[Fault]:
    """A service ignores them: a newer version may know them."""
    for key, _ in _entries(_metadata(document).get("annotations")):
        if not key.startswith(_OUR_PREFIX) or key in _OUR_KEYS:
            continue
        near = difflib.get_close_matches(key, _OUR_KEYS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        yield Fault(("metadata", "annotations", key), f"has no meaning and is ignored{hint}")


def _warnings_of_kind(document: Json) -> list[Fault]:
    kind = identity(document)
    if kind == ("karpenter.sh/v1alpha5", "Provisioner"):
        return _provisioner_warnings(document)
    warnings_of = warner_of(kind[1])
    return warnings_of(document) if kind in SCHEMAS and warnings_of is not None else []


def is_ours(document: object) -> bool:
    """Whether the document is of a kind that Dovetail reads, or in one of its API groups, and not EKS Auto Mode's."""
    if not isinstance(document, Mapping):
        return False
    version, kind = identity(document)
    if (version, kind) == CONFIG_MAP:
        return _metadata(document).get("name") == SETTINGS_NAME
    if is_of_others(kind, document):
        return False
    group = version.partition("/")[0]
    known = kind in {name for _, name in SCHEMAS}
    # That group has kinds of other programs too, and other groups have a NodePool.
    shared = known and (group == SHARED_GROUP or _is_misspelt(group))
    return shared or group in GROUPS


def _is_misspelt(group: str) -> bool:
    """Whether the group of a kind of ours is missing, or close to one of ours."""
    return not group or bool(difflib.get_close_matches(group, GROUPS, n=1, cutoff=0.88))


def title_of(document: object) -> str:
    """``NodePool/default``; placeholders stand for a missing kind or name."""
    if not isinstance(document, Mapping):
        return "no object"
    name = _metadata(document).get("name")
    return f"{identity(document)[1] or 'object'}/{name if isinstance(name, str) else '?'}"


def identity(document: Json) -> tuple[str, str]:
    """(apiVersion, kind); "" for a missing one."""
    version, kind = document.get("apiVersion"), document.get("kind")
    return version if isinstance(version, str) else "", kind if isinstance(kind, str) else ""


def _metadata(document: Json) -> Json:
    found = document.get("metadata")
    return found if isinstance(found, Mapping) else {}


def _unknown_kind(version: str, kind: str) -> Fault:
    served = sorted(known for known, name in SCHEMAS if name == kind)
    if served and not version:
        return Fault(("apiVersion",), f"is required; use {' or '.join(served)}")
    if served:
        return Fault(
            ("apiVersion",), f"{kind} is not supported in {version}; use {' or '.join(served)}"
        )
    near = difflib.get_close_matches(kind, {name for _, name in SCHEMAS}, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    fault = f"{kind[:80]} is not a kind of {version}" if kind else "is required"
    return Fault(("kind",), f"{fault}{hint}")


def _metadata_faults(document: Json) -> Iterable[Fault]:
    raw, meta = document.get("metadata"), _metadata(document)
    if raw is not None and not isinstance(raw, Mapping):
        return  # the schema reports it
    name = meta.get("name")
    if name is None and not meta.get("generateName"):
        empty = "metadata" in document and not meta
        hint = "; indent the lines that belong to it" if empty else ""
        yield Fault(("metadata", "name"), f"is required{hint}")
    elif name is not None and not is_object_name(name):
        yield Fault(
            ("metadata", "name"),
            "must be at most 253 lower case letters, digits, - and ., with a letter or digit at both ends",
        )
    for field in ("labels", "annotations"):
        for key, value in _entries(meta.get(field)):
            if not isinstance(value, str):
                yield Fault(("metadata", field, key), "must be a string; put it in quotes")


def is_object_name(name: object) -> bool:
    """Whether ``name`` is a DNS-1123 subdomain, as names of cluster-scoped objects must be."""
    return isinstance(name, str) and len(name) <= LONGEST_NAME and bool(_SUBDOMAIN.fullmatch(name))


def _entries(raw: object) -> list[tuple[str, Any]]:
    return [(str(key), value) for key, value in raw.items()] if isinstance(raw, Mapping) else []


def _structure_faults(model: type[Resource], document: Json) -> list[Fault]:
    # Only controllers write status, so that of a file is not checked.
    checked = {key: value for key, value in document.items() if key != "status"}
    _, found = read(model, checked, context=UNKNOWN_FIELDS)
    faults = [_with_place(identity(document), fault) for fault in found]
    if "spec" in checked and checked["spec"] is None:
        # The file lost its indentation. A fault for each of its fields would hide the cause.
        inside = [fault for fault in faults if len(fault.path) != 1]
        return [*inside, Fault(("spec",), "is empty; indent the lines that belong to it")]
    return faults


def _with_place(kind: tuple[str, str], fault: Fault) -> Fault:
    """The fault of a field of another generation says where it belongs."""
    place = place_of_field(kind, fault.path)
    if not place:
        return fault
    unknown = fault.message.startswith(UNKNOWN_FIELD)
    return Fault(fault.path, f"{UNKNOWN_FIELD if unknown else fault.message}; {place}")


def _placeholders(document: Json) -> list[Fault]:
    """Warnings about ``${CLUSTER_NAME}``, which is a valid string but usually a mistake, except in ``userData``."""
    found: list[Fault] = []
    waiting: list[tuple[Path, object]] = [((), document)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, Mapping):
            worth = ((k, v) for k, v in value.items() if k != "userData" and _may_hold_one(v))
            waiting += [((*path, str(k)), v) for k, v in worth]
            found += [Fault((*path, k), _replace(k)) for k in value if _is_placeholder(k)]
        elif isinstance(value, list):
            waiting += [((*path, index), v) for index, v in enumerate(value) if _may_hold_one(v)]
        elif _is_placeholder(value):
            found.append(Fault(path, _replace(str(value))))
    return sorted(set(found), key=str)


def _may_hold_one(value: object) -> bool:
    """A cheap test before the path is built, which takes far longer for ten thousand entries."""
    return _is_placeholder(value) if isinstance(value, str) else isinstance(value, Mapping | list)


def _is_placeholder(value: object) -> bool:
    return isinstance(value, str) and _PLACEHOLDER.search(value) is not None


def _replace(text: str) -> str:
    """The message about the first placeholder in ``text``."""
    seen = _PLACEHOLDER.search(text)
    shown = seen[0][:80] if seen is not None else text
    how = ", for example with envsubst" if _VARIABLE.fullmatch(shown) else ""
    return f"{shown} is a placeholder; replace it{how}"


def _value_at(document: object, path: Path) -> object:
    """What is written at ``path``; None where nothing is."""
    for part in path:
        if isinstance(document, Mapping):
            document = document.get(part)
        elif isinstance(document, list) and isinstance(part, int) and part < len(document):
            document = document[part]
        else:
            return None
    return document


def _defaults_added(document: Json, pool: DomainPool) -> list[Expression]:
    """P-19: requirements that come from defaults."""
    written = {keys.normalise(one["key"]) for one in document["spec"].get("requirements") or []}
    return [one for one in pool.requirements if one.key not in written]


def _provisioner_warnings(document: Json) -> list[Fault]:
    pool: DomainPool | None = parser_of("Provisioner")(document).record
    if pool is None or not isinstance(document.get("spec"), Mapping):
        return []
    found = value_warnings(document, ("spec", "labels"), ("spec", "requirements"))
    if added := _defaults_added(document, pool):
        shown = ", ".join(f"{one.key} {one.operator} [{', '.join(one.values)}]" for one in added)
        found.append(Fault(("spec", "requirements"), f"these defaults apply: {shown}"))
    if document["spec"].get("provider") is not None:
        text = "is deprecated; move it to an AWSNodeTemplate and reference that in providerRef"
        found.append(Fault(("spec", "provider"), text))
    return found


_FURTHER_CHECKS = PARSERS.keys() - {"NodeClaim", "Machine", "InstanceType"}
"""The kinds whose parsers check more than their schema."""
