"""Turns documents into objects with the metadata that an API server would have added.

Files lack uids, creation times and often namespaces. Missing fields are filled in, equally on every run: a uid consists
of kind, namespace and name. An invalid object becomes a fault and is left out; the others are used.

What may go wrong: a document may hold anything, even text that is not valid Unicode and numbers that JSON cannot hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from shared.api.conversion.relations import without_v1beta1
from shared.api.conversion.v1beta1_kinds import NODE_CLAIM, is_v1beta1
from shared.api.conversion.written import Written
from shared.api.faults import Fault, field_text
from shared.api.registry import check, identity, is_object_name, is_ours
from shared.api.shapes import entries, mapping, text, text_list, texts
from shared.api.v1.auto_mode import is_of_others
from shared.concurrency.clock import parse_rfc3339
from shared.errors import InvalidObject

Json = Mapping[str, Any]
DEFAULT_NAMESPACE = "default"
EPOCH = "1970-01-01T00:00:00Z"
"""Creation time of objects without one; they are equally old, so that names decide their order."""
SYNTHETIC = "simulated:"
"""Prefix of generated uids."""
LONGEST_UID = 128


class Known(NamedTuple):
    """A kind that planning uses: its API group, whether it is namespaced, and its version."""

    group: str
    namespaced: bool
    version: str = ""
    """The only version that is read; empty: any."""
    also: str = ""
    """Another API group with a kind of this name that is read."""


KINDS = {
    "Pod": Known("", True),
    "Deployment": Known("apps", True),
    "ReplicaSet": Known("apps", True),
    "ReplicationController": Known("", True),
    "StatefulSet": Known("apps", True),
    "Job": Known("batch", True),
    "DaemonSet": Known("apps", True),
    "Node": Known("", False),
    "Namespace": Known("", False),
    "PersistentVolume": Known("", False),
    "PersistentVolumeClaim": Known("", True),
    "StorageClass": Known("storage.k8s.io", False),
    "CSINode": Known("storage.k8s.io", False),
    "PodDisruptionBudget": Known("policy", True),
    "Provisioner": Known("karpenter.sh", False, "v1alpha5"),
    "NodePool": Known("karpenter.sh", False, "v1"),
    "Machine": Known("karpenter.sh", False, "v1alpha5"),
    "NodeClaim": Known("karpenter.sh", False, "v1"),
    "AWSNodeTemplate": Known("karpenter.k8s.aws", False, "v1alpha1"),
    "EC2NodeClass": Known("karpenter.k8s.aws", False, "v1"),
    "NodeOverlay": Known("karpenter.sh", False, "v1alpha1"),
    "CapacityBuffer": Known("autoscaling.x-k8s.io", True),
    "ProvisioningRequest": Known("autoscaling.x-k8s.io", True),
    "PodGroup": Known("scheduling.x-k8s.io", True, also="scheduling.k8s.io"),
    "Workload": Known("scheduling.k8s.io", True),
    "PodTemplate": Known("", True),
    "VerticalPodAutoscaler": Known("autoscaling.k8s.io", True),
    "DeviceClass": Known("resource.k8s.io", False, "v1"),
    "ResourceSlice": Known("resource.k8s.io", False, "v1"),
    "ResourceClaim": Known("resource.k8s.io", True, "v1"),
    "ResourceClaimTemplate": Known("resource.k8s.io", True, "v1"),
    "DeviceTemplate": Known("dovetail.sh", False, "v1alpha1"),
    "InstanceType": Known("dovetail.sh", False, "v1alpha1"),
}


class ObjectFault(NamedTuple):
    """A fault of one object. ``name``: ``namespace/name``, or the name of a cluster-wide object."""

    kind: str
    name: str
    field: str
    message: str

    @property
    def text(self) -> str:
        """``Pod/default/web: spec.x: message``."""
        known = self.kind or self.name
        subject = f"{self.kind}/{self.name}" if known else "a document without kind and name"
        parts = (subject, self.field, self.message)
        return ": ".join(filter(None, parts))


class KubeObject(NamedTuple):
    """One object to parse. ``raw`` has complete metadata."""

    kind: str
    raw: dict[str, Any]
    controller: KubeObject | None = None
    """The controller among the inputs from whose template the object was made; None for given objects."""

    @property
    def metadata(self) -> dict[str, Any]:
        found: dict[str, Any] = self.raw["metadata"]
        return found

    @property
    def name(self) -> str:
        """``namespace/name``, or the name of a cluster-wide object."""
        meta = self.metadata
        return f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else str(meta["name"])

    def fault(self, field: str, message: str) -> ObjectFault:
        return ObjectFault(self.kind, self.name, field, message)

    def faults(self, found: Iterable[Fault]) -> list[ObjectFault]:
        return [self.fault(field_text(one.path), one.message) for one in found]


@dataclass
class Objects:
    """The objects of all documents, and their faults."""

    by_kind: dict[str, list[KubeObject]] = field(default_factory=dict)
    faults: list[ObjectFault] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    """Kind -> number of objects that planning does not use."""
    _names: set[tuple[str, str]] = field(default_factory=set)
    _uids: set[str] = field(default_factory=set)

    def of(self, *kinds: str) -> list[KubeObject]:
        """The objects of these kinds, in the order in which they were given."""
        return [one for kind in kinds for one in self.by_kind.get(kind, [])]

    def has(self, kind: str, name: str) -> bool:
        """Is there an object with this name? See ``KubeObject.name``."""
        return (kind, name) in self._names

    def add(self, document: object, number: int) -> None:
        """Adds one document that is not a list. ``number``: completes a name made from ``generateName``."""
        problem = _unreadable(document)
        if problem or not isinstance(document, Mapping):
            self.faults.append(_nameless(document, problem or "must be an object"))
            return
        version, kind = identity(document)
        known = KINDS.get(kind)
        if not kind:
            self.faults.append(_nameless(document, "is required", "kind"))
        elif known is None or not _is_same_group(version, known) or is_of_others(kind, document):
            self._ignore_or_refuse(document, kind)
        elif known.version and version not in ("", served := f"{known.group}/{known.version}"):
            wrong = Fault(("apiVersion",), f"{kind} is not read as {version}; write {served}")
            self._refuse(document, kind, [wrong])
        else:
            self._complete(document, kind, known, number)

    def _ignore_or_refuse(self, document: Json, kind: str) -> None:
        wrong = [one for one in check(document) if one.path[:1] in (("apiVersion",), ("kind",))]
        if is_ours(document) and wrong:
            self._refuse(document, kind, wrong)
        else:
            self.ignored[kind] += 1

    def refuse_parts(self, document: Json, found: Iterable[Fault]) -> None:
        """Adds faults of an object that counts without these parts."""
        self._refuse(document, identity(document)[1], found)

    def _refuse(self, document: Json, kind: str, found: Iterable[Fault]) -> None:
        name = _shown_name(document)
        self.faults += [ObjectFault(kind, name, field_text(one.path), one.message) for one in found]

    def _complete(self, document: Json, kind: str, known: Known, number: int) -> None:
        try:
            metadata = complete_metadata(document.get("metadata"), known.namespaced, number)
        except InvalidObject as error:
            self.faults.append(ObjectFault(kind, _shown_name(document), error.field, error.fault))
            return
        self.take(KubeObject(kind, {**document, "kind": kind, "metadata": metadata}))

    def take(self, found: KubeObject) -> None:
        """Adds an object with complete metadata, unless there is one with the same name."""
        key = (found.kind, found.name)
        if key in self._names:
            self.faults.append(
                found.fault("metadata.name", "duplicate name; only the first object is used")
            )
            return
        self._names.add(key)
        meta = found.metadata
        given = meta["uid"]
        if not given or given in self._uids or given.startswith(SYNTHETIC):
            meta["uid"] = f"{SYNTHETIC}{found.kind}/{found.name}"
        self._uids.add(meta["uid"])
        self.by_kind.setdefault(found.kind, []).append(found)


def collect(documents: Iterable[object]) -> Objects:
    """The objects of all documents and of the lists among them. Never raises."""
    objects = Objects()
    given = list(flattened(documents))
    for number, written in enumerate(without_v1beta1(given)):
        document = given[number]
        if isinstance(document, Mapping) and is_v1beta1(document) and not _unreadable(document):
            objects.refuse_parts(
                document, [*_faults_of_v1beta1(document), *_lost(document, written)]
            )
        objects.add(written.document, number)
    return objects


def _faults_of_v1beta1(document: Json) -> list[Fault]:
    # Imported here: it loads the schemas of v1, which inputs without v1beta1 may not need.
    from shared.api.conversion.v1beta1 import own_faults

    return own_faults(document)


def _lost(document: Json, written: Written) -> Iterable[Fault]:
    """What the v1 object lacks. The instance of a claim runs already."""
    return written.notes if identity(document) != NODE_CLAIM else ()


def flattened(documents: Iterable[object]) -> Iterator[object]:
    """The documents with lists replaced by their items. Items of a ``PodList`` need no ``kind``."""
    for document in _unlisted(documents):
        items = _items(document)
        if items is None:
            yield document
            continue
        assert isinstance(document, Mapping)
        version, kind = identity(document)
        implied = {"apiVersion": version, "kind": kind.removesuffix("List")}
        for item in items:
            if kind != "List" and isinstance(item, Mapping):
                yield {**implied, **item}
            else:
                yield item


def _unlisted(documents: Iterable[object]) -> Iterator[object]:
    """The documents with JSON arrays replaced by their elements."""
    for document in documents:
        if isinstance(document, list):
            yield from document
        else:
            yield document


def _items(document: object) -> list[object] | None:
    if not isinstance(document, Mapping) or not identity(document)[1].endswith("List"):
        return None
    items = document.get("items")
    return items if isinstance(items, list) else None


def _is_same_group(version: str, known: Known) -> bool:
    """Is the kind of this API group, or without one? Other groups may have kinds of the same name."""
    group = version.rpartition("/")[0]
    return not version or group == known.group or (bool(known.also) and group == known.also)


def _unreadable(document: object) -> str:
    """Why this document cannot be processed; empty when it can."""
    try:
        msgspec.json.encode(document)
    except UnicodeEncodeError:
        return "holds text that is not valid Unicode"
    except RecursionError:
        return "is nested too deeply"
    except (OverflowError, TypeError, ValueError):
        return "holds a value that no JSON document can hold"
    return ""


def _nameless(document: object, message: str, field: str = "") -> ObjectFault:
    if not isinstance(document, Mapping):
        return ObjectFault("", "", field, message)
    return ObjectFault(_printable(identity(document)[1]), _shown_name(document), field, message)


def _shown_name(document: Json) -> str:
    meta = document.get("metadata")
    given = meta if isinstance(meta, Mapping) else {}
    parts = (given.get("namespace"), given.get("name"))
    return _printable("/".join(part for part in parts if isinstance(part, str) and part))


def _printable(text: str) -> str:
    return text[:512].encode("ascii", "backslashreplace").decode()


def complete_metadata(raw: object, namespaced: bool, number: int) -> dict[str, Any]:
    """Metadata with name, namespace, uid and creation time. Raises InvalidObject naming the field."""
    given = mapping(raw, "metadata")
    metadata: dict[str, Any] = {
        **given,
        "name": _name(given, number),
        "uid": _uid(given),
        "creationTimestamp": _creation(given),
        "labels": texts(given.get("labels"), "metadata.labels"),
        "annotations": texts(given.get("annotations"), "metadata.annotations"),
        "ownerReferences": _owners(given),
        "finalizers": list(text_list(given.get("finalizers"), "metadata.finalizers")),
    }
    metadata.pop("namespace", None)
    if namespaced:
        metadata["namespace"] = _namespace(given)
    return metadata


def _name(given: Json, number: int) -> str:
    name = text(given.get("name"), "metadata.name")
    prefix = text(given.get("generateName"), "metadata.generateName")
    if not name and prefix:
        name = f"{prefix}{number:05d}"
    if not name:
        raise InvalidObject("is required", field="metadata.name")
    if not is_object_name(name):
        raise InvalidObject(
            "must be at most 253 lower case letters, digits, - and ., with a letter or digit at both ends",
            field="metadata.name",
        )
    return name


def _namespace(given: Json) -> str:
    namespace = text(given.get("namespace"), "metadata.namespace") or DEFAULT_NAMESPACE
    if not is_object_name(namespace):
        raise InvalidObject("is not a valid name of a namespace", field="metadata.namespace")
    return namespace


def _uid(given: Json) -> str:
    uid = text(given.get("uid"), "metadata.uid")
    if len(uid) > LONGEST_UID:
        raise InvalidObject(f"has more than {LONGEST_UID} characters", field="metadata.uid")
    return uid


def _creation(given: Json) -> str:
    stamp = text(given.get("creationTimestamp"), "metadata.creationTimestamp") or EPOCH
    try:
        parse_rfc3339(stamp)
    except (ValueError, OverflowError) as error:
        raise InvalidObject(
            "must be a timestamp such as 2024-01-31T12:00:00Z", field="metadata.creationTimestamp"
        ) from error
    return stamp


def _owners(given: Json) -> list[dict[str, Any]]:
    field = "metadata.ownerReferences"
    found = []
    for index, one in enumerate(entries(given.get("ownerReferences"), field)):
        parts = {n: text(one.get(n), f"{field}[{index}].{n}") for n in ("kind", "name", "uid")}
        if not parts["kind"] or not parts["name"]:
            raise InvalidObject("needs kind and name", field=f"{field}[{index}]")
        found.append({**one, **parts})
    return found
