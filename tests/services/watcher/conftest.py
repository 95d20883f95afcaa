"""A store with every kind that the watcher may watch."""

from __future__ import annotations

from typing import Any

from local.cluster.storage.store import Store
from shared.kube.resources import (
    POD_GROUPS,
    SCHEDULING_GROUPS,
    VERTICAL_AUTOSCALERS,
    WORKLOADS,
    Resource,
)
from tests.services.conftest import CRDS, store_with_our_kinds

Json = dict[str, Any]


def store_with_watched_kinds() -> Store:
    """A store that knows our kinds, and those of others that the watcher may watch."""
    store = store_with_our_kinds()
    for resource in (POD_GROUPS, SCHEDULING_GROUPS, WORKLOADS, VERTICAL_AUTOSCALERS):
        store.create(CRDS.plural, definition(resource), group=CRDS.group)
    return store


def definition(resource: Resource) -> Json:
    """A definition that takes every object."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": resource.version, "served": True, "storage": True}
    return {
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {"plural": resource.plural, "kind": resource.kind},
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }
