"""The namespace controller creates each namespace's ServiceAccount ``default`` and empties and finalizes deleted
namespaces.

Pods on nodes end through their kubelets, so a namespace may need several passes. Objects with finalizers keep it in
phase Terminating, as in a real cluster.
"""

from __future__ import annotations

from local.cluster.api.errors import ApiError
from local.cluster.control_plane.informers import Informers, Key, Obj
from local.cluster.control_plane.supervision import TimeSlice
from local.cluster.controllers.workqueue import Controller

RECHECK_SECONDS = 0.1
ACCOUNT = "default"
"""The ServiceAccount of pods that name none."""


class NamespaceController(Controller):
    """Creates default accounts and completes namespace deletion."""

    name, plural = "namespace", "namespaces"

    def register(self, informers: Informers) -> None:
        """Watch namespaces, and ServiceAccounts because a deleted default account is created again."""
        informers.on(self.plural, self.on_own)
        informers.on("serviceaccounts", self._on_account)

    def _on_account(self, event_type: str, obj: Obj, _old: Obj | None) -> None:
        if event_type == "DELETED" and obj["metadata"]["name"] == ACCOUNT:
            self.queue.add(Key("", obj["metadata"]["namespace"]))

    async def reconcile(self, key: Key) -> float | None:
        """Create the account of an active namespace. Empty a deleted one, and finalize it when it is empty."""
        namespace = self.find(key)
        if namespace is None:
            return None
        if not namespace["metadata"].get("deletionTimestamp"):
            self._make_account(key.name)
            return None
        left = await self._empty(key.name)
        if left:
            return RECHECK_SECONDS
        finalized = {**namespace, "spec": {**(namespace.get("spec") or {}), "finalizers": []}}
        self._store.update("namespaces", finalized, subresource="finalize")
        return None

    def _make_account(self, namespace: str) -> None:
        if self._store.find("serviceaccounts", ACCOUNT, namespace=namespace) is None:
            account = {"metadata": {"name": ACCOUNT}}
            self._store.create("serviceaccounts", account, namespace=namespace)

    async def _empty(self, namespace: str) -> int:
        """Delete all objects of the namespace. Returns the number of objects that remain."""
        turn, left = TimeSlice(), 0
        kinds = {(r.plural, r.group) for r in self._store.served() if r.namespaced}
        for plural, group in sorted(kinds):
            for obj in self._store.list(plural, group=group, namespace=namespace):
                if not obj["metadata"].get("deletionTimestamp"):
                    self._delete(plural, group, namespace, obj["metadata"]["name"])
                left += 1
                await turn.share()
        return left

    def _delete(self, plural: str, group: str, namespace: str, name: str) -> None:
        try:
            self._store.delete(
                plural, name, group=group, namespace=namespace, propagation="Background"
            )
        except ApiError as error:
            if error.code != 404:
                raise
