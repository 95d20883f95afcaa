"""The claims of pods: made from templates, freed when their pods are done (Kubernetes' resourceclaim controller).

A claim that was made for a pod belongs to it and goes with it: the garbage collector deletes it with the pod, and this
controller when the pod has finished. A claim with a name loses its reservations and then its allocation.
"""

from __future__ import annotations

from typing import Any

from local.cluster.builtin.resources import DEVICE_GROUP
from local.cluster.control_plane.informers import Informers, Key, KeyIndex, Obj, key_of
from local.cluster.controllers.pod_templates import is_active, owner_reference, phase
from local.cluster.controllers.workqueue import Controller
from local.cluster.storage.store import Store

CLAIMS, TEMPLATES = "resourceclaims", "resourceclaimtemplates"
POD_CLAIM = "resource.kubernetes.io/pod-claim-name"
RETRY_SECONDS = 1.0
"""Until a template is looked for again."""


class ResourceClaimController(Controller):
    """Creates and frees the claims of pods. Keys are pods."""

    name, plural = "resource-claims", "pods"

    def __init__(self, store: Store, informers: Informers) -> None:
        super().__init__(store)
        self._reserved = KeyIndex(store, informers, CLAIMS, _users, group=DEVICE_GROUP)

    def register(self, informers: Informers) -> None:
        """Watch pods with claims."""
        informers.on(self.plural, self._on_pod)

    def _on_pod(self, event_type: str, obj: Obj, _old: Obj | None) -> None:
        if obj["spec"].get("resourceClaims"):
            self.queue.add(key_of(obj))

    async def reconcile(self, key: Key) -> float | None:
        """Make the missing claims of a pod, or free those of a pod that is gone or done."""
        pod = self.find(key)
        self._free(key, pod)
        if pod is None:
            return None
        if phase(pod) in ("Succeeded", "Failed"):
            self._delete_own(pod)
            return None
        return None if not is_active(pod) else self._make(pod)

    def _make(self, pod: Obj) -> float | None:
        made = {
            one["name"]: one for one in (pod.get("status") or {}).get("resourceClaimStatuses") or ()
        }
        missing, known = False, dict(made)
        for one in pod["spec"]["resourceClaims"]:
            template = one.get("resourceClaimTemplateName")
            if template and one["name"] not in made:
                claim = self._created(pod, one["name"], template)
                missing = missing or claim is None
                if claim is not None:
                    known[one["name"]] = {"name": one["name"], "resourceClaimName": claim}
        if known != made:
            self._store.patch(
                "pods",
                pod["metadata"]["name"],
                {"status": {"resourceClaimStatuses": list(known.values())}},
                namespace=pod["metadata"]["namespace"],
                subresource="status",
            )
        return RETRY_SECONDS if missing else None

    def _created(self, pod: Obj, entry: str, template: str) -> str | None:
        """The name of the pod's claim, which is made unless it is there; None without its template."""
        meta = pod["metadata"]
        found = self._store.find(
            TEMPLATES, template, group=DEVICE_GROUP, namespace=meta["namespace"]
        )
        if found is None:
            return None
        for claim in self._own(pod):
            if (claim["metadata"].get("annotations") or {}).get(POD_CLAIM) == entry:
                return str(claim["metadata"]["name"])
        outer = found["spec"]
        given: dict[str, Any] = outer.get("metadata") or {}
        body = {
            "metadata": {
                "generateName": f"{meta['name']}-{entry}-",
                "labels": dict(given.get("labels") or {}),
                "annotations": {**(given.get("annotations") or {}), POD_CLAIM: entry},
                "ownerReferences": [owner_reference(pod)],
            },
            "spec": outer["spec"],
        }
        created = self._store.create(CLAIMS, body, group=DEVICE_GROUP, namespace=meta["namespace"])
        return str(created["metadata"]["name"])

    def _own(self, pod: Obj) -> list[Obj]:
        uid = pod["metadata"]["uid"]
        claims = self._store.list(
            CLAIMS, group=DEVICE_GROUP, namespace=pod["metadata"]["namespace"]
        )
        return [
            one
            for one in claims
            if any(o["uid"] == uid for o in one["metadata"].get("ownerReferences") or ())
        ]

    def _delete_own(self, pod: Obj) -> None:
        for claim in self._own(pod):
            if not claim["metadata"].get("deletionTimestamp"):
                self._store.delete(
                    CLAIMS,
                    claim["metadata"]["name"],
                    group=DEVICE_GROUP,
                    namespace=claim["metadata"]["namespace"],
                )

    def _free(self, key: Key, pod: Obj | None) -> None:
        """Remove reservations for earlier pods of this name, and for this one when it has finished."""
        done = pod is None or phase(pod) in ("Succeeded", "Failed")
        uid = None if done or pod is None else pod["metadata"]["uid"]
        for claim in self._reserved.members(str(key)):
            status = claim.get("status") or {}
            users = [
                one
                for one in status.get("reservedFor") or ()
                if one["name"] != key.name or one["uid"] == uid
            ]
            if len(users) == len(status.get("reservedFor") or ()):
                continue
            left = {**status, "reservedFor": users}
            if not users:
                left = {k: v for k, v in left.items() if k not in ("reservedFor", "allocation")}
            self._store.update(
                CLAIMS,
                {**claim, "status": left},
                group=DEVICE_GROUP,
                namespace=key.namespace,
                subresource="status",
            )


def _users(claim: Obj) -> list[str]:
    """Keys of the pods for which a claim is reserved, for an index."""
    namespace = claim["metadata"].get("namespace") or ""
    users = (claim.get("status") or {}).get("reservedFor") or ()
    return [str(Key(namespace, one["name"])) for one in users]
