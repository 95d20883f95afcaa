"""The cluster's state in memory, with the semantics of a Kubernetes API server and without HTTP.

Everything runs on one event loop and every method is synchronous, so each call is a transaction: a revision counter
numbers the changes of all kinds, objects are replaced and never changed in place, and readers get the stored documents
themselves. They are READ ONLY: copy a document before changing it, because a change would corrupt the store for all
readers. HTTP handlers and in-process controllers use the same methods.

A namespace is removed when its ``spec.finalizers`` are empty: ``update("namespaces", ns, subresource="finalize")``.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from typing import Any

from local.cluster.api import eviction
from local.cluster.api.errors import (
    ApiError,
    already_exists,
    bad_request,
    forbidden,
    invalid,
    no_such_path,
)
from local.cluster.api.patches import merge_patch
from local.cluster.builtin.admission import admit_create, admit_update
from local.cluster.builtin.first_objects import first_objects
from local.cluster.builtin.resources import BUILT_IN, CRD_GROUP, CRD_PLURAL, Resource
from local.cluster.crd.custom_resources import CustomKind, established, names_conflict
from local.cluster.storage import lifecycle, resizing
from local.cluster.storage.collection import Collection, key_of
from local.cluster.storage.selectors import object_predicate, selector_text
from local.cluster.storage.watches import Change, Cursor, Document, Stored, Subscription
from shared.concurrency.clock import Clock, rfc3339

__all__ = ["ApiError", "Document", "Resource", "Store", "Subscription"]


class Store:
    """All objects of the cluster.

    ``ids`` generates uids and names; ``log_length`` is per kind; ``on_change`` gets every change at once.
    """

    def __init__(
        self,
        clock: Clock,
        ids: random.Random,
        *,
        log_length: int = 20_000,
        on_change: Callable[[Resource, Change], None] | None = None,
    ) -> None:
        self.clock = clock
        self._ids = ids
        self._log_length = log_length
        self._on_change = on_change
        self._revision = 1
        self._custom: dict[tuple[str, str], CustomKind] = {}
        self._collections = {(r.group, r.plural): Collection(r, log_length) for r in BUILT_IN}
        for plural, group, document in first_objects():
            self.create(plural, document, group=group)

    # Served kinds

    @property
    def revision(self) -> int:
        """resourceVersion of the newest change of any kind."""
        return self._revision

    def collection(self, plural: str, group: str = "") -> Collection:
        """The objects of one kind. Raises ApiError 404."""
        found = self._collections.get((group, plural))
        if found is None:
            raise no_such_path()
        return found

    def resource(self, plural: str, group: str = "") -> Resource:
        """The storage version of one kind. Raises ApiError 404."""
        return self.collection(plural, group).resource

    def custom_kind(self, resource: Resource) -> CustomKind | None:
        """Schemas and columns of a custom resource, None for a built-in kind."""
        return self._custom.get((resource.group, resource.plural))

    def served(self) -> list[Resource]:
        """Every kind in every served version, in order of group and plural."""
        found: list[Resource] = []
        for key in sorted(self._collections):
            custom = self._custom.get(key)
            found += custom.served() if custom else [self._collections[key].resource]
        return found

    # Reading

    def find(
        self, plural: str, name: str, *, group: str = "", namespace: str | None = None
    ) -> Document | None:
        """The stored object or None. Read only."""
        stored = self.collection(plural, group).find((namespace or "", name))
        return stored.document if stored else None

    def get(
        self, plural: str, name: str, *, group: str = "", namespace: str | None = None
    ) -> Document:
        """The stored object, read only. Raises ApiError 404."""
        return self.collection(plural, group).get((namespace or "", name)).document

    def list(
        self,
        plural: str,
        *,
        group: str = "",
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> list[Document]:
        """Stored objects in order of namespace and name, read only.

        Raises ApiError 400 for a bad selector.
        """
        matches = object_predicate(label_selector, field_selector)
        found = (stored.document for stored in self.collection(plural, group).scan(namespace))
        return [document for document in found if matches is None or matches(document)]

    def subscribe(self, plural: str, *, group: str = "") -> Subscription:
        """All current objects and every later change, without a gap between the two."""
        collection = self.collection(plural, group)
        initial = [stored.document for stored in collection.scan(None)]
        return Subscription(initial, Cursor(collection.log, collection.log.end))

    # Writing

    def create(
        self,
        plural: str,
        obj: Document,
        *,
        group: str = "",
        namespace: str | None = None,
        dry_run: bool = False,
    ) -> Document:
        """Add an object. Raises ApiError 400, 403, 404 (namespace), 409 AlreadyExists, 422."""
        collection = self.collection(plural, group)
        resource, document = collection.resource, lifecycle.copied(obj)
        lifecycle.check_type(resource, document)
        metadata = lifecycle.check_metadata(resource, document)
        lifecycle.check_scope(resource, metadata, namespace)
        self._name(resource, metadata)
        self._check_namespace(resource, metadata)
        if key_of(document) in collection:
            raise already_exists(resource, metadata["name"])
        lifecycle.reset_for_create(resource, document, self._uid(), self.clock.now())
        admit_create(resource, document, self)
        document["apiVersion"] = resource.api_version
        return document if dry_run else self._commit(collection, document)

    def update(
        self,
        plural: str,
        obj: Document,
        *,
        group: str = "",
        namespace: str | None = None,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> Document:
        """Replace an object, its status, its scale or a namespace's finalizers; an update without changes writes
        nothing.

        Raises ApiError 404, 409 Conflict when metadata.resourceVersion is given and stale, 422.
        """
        collection = self.collection(plural, group)
        resource, document = collection.resource, lifecycle.copied(obj)
        metadata = lifecycle.check_metadata(resource, document)
        lifecycle.check_scope(resource, metadata, namespace)
        old = collection.get((metadata.get("namespace") or "", metadata.get("name") or "")).document
        if subresource == "scale":
            document = lifecycle.copied(
                lifecycle.scaled(old, document, self._scale_paths(resource))
            )
        else:
            lifecycle.check_type(resource, document)
        new = self._successor(resource, old, document, subresource)
        if new == old:
            return old
        return new if dry_run else self._commit(collection, new)

    def _successor(
        self, resource: Resource, old: Document, document: Document, subresource: str | None
    ) -> Document:
        if subresource == "finalize":
            finalizers = (document.get("spec") or {}).get("finalizers") or []
            return {**old, "spec": {**old["spec"], "finalizers": finalizers}}
        if subresource == "resize":
            return resizing.resized(resource, old, document)
        part = "status" if subresource == "status" else None
        new = lifecycle.successor(resource, old, document, part)
        new["apiVersion"], new["kind"] = resource.api_version, resource.kind
        admit_update(resource, old, new, part, self)
        new = lifecycle.sharing(old, new)
        return new if part else lifecycle.with_generation(old, new)

    def patch(
        self,
        plural: str,
        name: str,
        body: Document,
        *,
        group: str = "",
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> Document:
        """JSON merge patch of an object or of its status.

        Raises like ``update``; a resourceVersion in ``body`` is a precondition.
        """
        old = self.get(plural, name, group=group, namespace=namespace)
        new = merge_patch(old, lifecycle.copied(body))
        new["metadata"] = {**new.get("metadata", {}), "name": name}
        return self.update(plural, new, group=group, namespace=namespace, subresource=subresource)

    def delete(
        self,
        plural: str,
        name: str,
        *,
        group: str = "",
        namespace: str | None = None,
        grace_seconds: int | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str | None = None,
        dry_run: bool = False,
    ) -> Document:
        """Mark an object for deletion and remove it when nothing prevents that. Returns its last version.

        Raises ApiError 404, and 409 for a failed precondition. A bound pod remains until it is deleted with
        ``grace_seconds=0`` (by its kubelet), any object until its finalizers are empty.
        """
        collection = self.collection(plural, group)
        resource = collection.resource
        old = collection.get((namespace or "", name)).document
        lifecycle.check_deletion(resource, old, uid, resource_version)
        new = lifecycle.marked_for_deletion(resource, old, grace_seconds, self.clock.now())
        new = lifecycle.with_propagation(new, propagation)
        if resource.plural == "namespaces" and not group:
            new = {**new, "status": {**new.get("status", {}), "phase": "Terminating"}}
        if new == old or dry_run:
            return old
        return self._commit(collection, new)

    # Subresources

    def scale(
        self, plural: str, name: str, *, group: str = "", namespace: str | None = None
    ) -> Document:
        """The ``autoscaling/v1`` Scale of a workload. Raises ApiError 404."""
        document = self.get(plural, name, group=group, namespace=namespace)
        resource = self.resource(plural, group)
        selector = selector_text(document.get("spec", {}).get("selector"))
        return lifecycle.scale_of(resource, document, selector, self._scale_paths(resource))

    def _scale_paths(self, resource: Resource) -> lifecycle.ScalePaths:
        custom = self.custom_kind(resource)
        return custom.versions[resource.version].scale if custom else lifecycle.REPLICAS

    def bind(self, name: str, namespace: str, node: str) -> None:
        """Assign a pod to a node.

        Raises ApiError 404, and 409 for a pod that is bound or being deleted.
        """
        collection = self.collection("pods")
        old = collection.get((namespace, name)).document
        lifecycle.check_bindable(collection.resource, old)
        self._commit(collection, lifecycle.bound(old, node, self.clock.now()))

    def evict(
        self,
        name: str,
        namespace: str,
        *,
        delete_options: dict[str, Any] | None = None,
        dry_run: bool = False,
    ) -> None:
        """Delete a pod if its disruption budget allows it, and charge the budget.

        Raises ApiError 404, 409 (preconditions), 429 TooManyRequests with a DisruptionBudget cause, 500 when several
        budgets select the pod.
        """
        options = delete_options or {}
        preconditions = options.get("preconditions") or {}
        collection = self.collection("pods")
        pod = collection.get((namespace, name)).document
        uid, version = preconditions.get("uid"), preconditions.get("resourceVersion")
        lifecycle.check_deletion(collection.resource, pod, uid, version)
        if eviction.needs_budget(pod):
            self._charge(pod, dry_run)
        self.delete(
            "pods",
            name,
            namespace=namespace,
            grace_seconds=options.get("gracePeriodSeconds"),
            uid=uid,
            dry_run=dry_run,
        )

    def _charge(self, pod: Document, dry_run: bool) -> None:
        group, plural = "policy", "poddisruptionbudgets"
        budgets = self.list(plural, group=group, namespace=pod["metadata"]["namespace"])
        budget = eviction.budget_of(pod, budgets)
        status = eviction.charged(pod, budget, self.clock.now()) if budget else None
        if budget and status and not dry_run:
            self.update(plural, {**budget, "status": status}, group=group, subresource="status")

    # Internals

    def _uid(self) -> str:
        return str(uuid.UUID(int=self._ids.getrandbits(128), version=4))

    def _name(self, resource: Resource, metadata: Document) -> None:
        if metadata.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        prefix = metadata.get("generateName")
        if not metadata.get("name") and isinstance(prefix, str) and prefix:
            limit = 63 - lifecycle.GENERATED_SUFFIX
            letters = self._ids.choices(lifecycle.SUFFIX_LETTERS, k=lifecycle.GENERATED_SUFFIX)
            metadata["name"] = prefix[:limit] + "".join(letters)
        errors = lifecycle.name_errors(metadata)
        if errors:
            raise invalid(resource, str(metadata.get("name") or ""), errors)

    def _check_namespace(self, resource: Resource, metadata: Document) -> None:
        if not resource.namespaced:
            return
        name = metadata["namespace"]
        namespace = self.get("namespaces", name)
        if namespace["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {name} because it is being terminated"
            raise forbidden(resource, metadata["name"], why)

    def _commit(self, collection: Collection, document: Document) -> Document:
        self._revision += 1
        metadata = {**document["metadata"], "resourceVersion": str(self._revision)}
        document = {**document, "metadata": metadata}
        stored = Stored(document)
        if not lifecycle.is_gone(collection.resource, document):
            self._report(collection, collection.put(stored, self._revision))
        elif key_of(document) in collection:
            self._report(collection, collection.remove(stored, self._revision))
        if collection.resource.plural == CRD_PLURAL and collection.resource.group == CRD_GROUP:
            self._follow_definition(collection, document)
        return document

    def _report(self, collection: Collection, change: Change) -> None:
        if self._on_change is not None:
            self._on_change(collection.resource, change)

    def _follow_definition(self, definitions: Collection, document: Document) -> None:
        # A real server's definition controller does this later; here a kind is served as soon as it is created.
        spec = document["spec"]
        key: tuple[str, str] = (spec["group"], spec["names"]["plural"])
        if document["metadata"]["name"] not in self._definition_names(definitions):
            self._custom.pop(key, None)
            self._drop(self._collections.pop(key, None))
            return
        refusal = names_conflict(document, self.served())
        if refusal is None:
            self._serve(key, CustomKind(document))
        settled = established(document, refusal, rfc3339(self.clock.now()))
        if settled != document:
            self._commit(definitions, settled)

    def _drop(self, collection: Collection | None) -> None:
        # Watchers of a removed kind see its objects deleted.
        if collection is None:
            return
        for stored in list(collection.scan(None)):
            self._revision += 1
            metadata = {**stored.document["metadata"], "resourceVersion": str(self._revision)}
            last = Stored({**stored.document, "metadata": metadata})
            self._report(collection, collection.remove(last, self._revision))

    def _definition_names(self, definitions: Collection) -> set[str]:
        return {stored.document["metadata"]["name"] for stored in definitions.scan(None)}

    def _serve(self, key: tuple[str, str], kind: CustomKind) -> None:
        self._custom[key] = kind
        existing = self._collections.get(key)
        if existing is None:
            self._collections[key] = Collection(kind.storage, self._log_length)
        else:
            existing.resource = kind.storage
