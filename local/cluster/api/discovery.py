"""Discovery documents in the two formats that clients request: aggregated discovery v2 and the older lists.

Source: the "Aggregated Discovery" and "API discovery" reference pages. Clients cache discovery: kubectl keeps it for
six hours under ~/.kube/cache and notices new kinds only when a lookup fails.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from local.cluster.api.errors import no_such_path
from local.cluster.builtin.resources import AUTOSCALERS_V1, REVIEWS, Resource
from local.cluster.storage.store import Store

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
CREATE_ONLY = {
    "eviction": ("policy", "v1", "Eviction"),
    "binding": ("", "v1", "Binding"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
}
_FEW_VERBS = {"finalize": ["update"], "log": ["get"]}
SCALE = ("autoscaling", "v1", "Scale")

Groups = dict[str, dict[str, list[Resource]]]
"""group -> version -> resources."""


def groups_of(store: Store) -> Groups:
    """All served groups."""
    groups: Groups = defaultdict(lambda: defaultdict(list))
    for resource in (*store.served(), AUTOSCALERS_V1, *REVIEWS):
        groups[resource.group][resource.version].append(resource)
    return groups


def _subresource_kind(resource: Resource, name: str) -> tuple[str, str, str]:
    if name == "scale":
        return SCALE
    return CREATE_ONLY.get(name, (resource.group, resource.version, resource.kind))


def _subresource_verbs(name: str) -> list[str]:
    if name in CREATE_ONLY:
        return ["create"]
    return _FEW_VERBS.get(name, ["get", "patch", "update"])


def _kind(group: str, version: str, kind: str) -> dict[str, str]:
    return {"group": group, "version": version, "kind": kind}


def _aggregated_resource(resource: Resource) -> dict[str, Any]:
    return {
        "resource": resource.plural,
        "responseKind": _kind(resource.group, resource.version, resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular_name,
        "verbs": list(resource.verbs),
        "shortNames": list(resource.short_names),
        "categories": list(resource.categories),
        "subresources": [
            {
                "subresource": name,
                "responseKind": _kind(*_subresource_kind(resource, name)),
                "verbs": _subresource_verbs(name),
            }
            for name in resource.subresources
        ],
    }


def aggregated(groups: Groups, *, core: bool) -> dict[str, Any]:
    """``APIGroupDiscoveryList`` of the core group or of all others."""
    items = [
        {
            "metadata": {"name": group},
            "versions": [
                {
                    "version": version,
                    "freshness": "Current",
                    "resources": [_aggregated_resource(resource) for resource in resources],
                }
                for version, resources in versions.items()
            ],
        }
        for group, versions in groups.items()
        if (group == "") is core
    ]
    version = "apidiscovery.k8s.io/v2"
    return {"kind": "APIGroupDiscoveryList", "apiVersion": version, "metadata": {}, "items": items}


def api_versions() -> dict[str, Any]:
    """The older answer to ``/api``."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def api_groups(groups: Groups) -> dict[str, Any]:
    """The older answer to ``/apis``."""
    found = [api_group(groups, group) for group in groups if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}


def api_group(groups: Groups, group: str) -> dict[str, Any]:
    """The answer to ``/apis/<group>``. Raises ApiError 404."""
    if not group or group not in groups:
        raise no_such_path()
    versions = [{"groupVersion": f"{group}/{v}", "version": v} for v in groups[group]]
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": group,
        "versions": versions,
        "preferredVersion": versions[0],
    }


def resource_list(groups: Groups, group: str, version: str) -> dict[str, Any]:
    """The answer to ``/api/v1`` and ``/apis/<group>/<version>``. Raises ApiError 404."""
    resources = groups.get(group, {}).get(version)
    if not resources:
        raise no_such_path()
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": list(_rows(resources)),
    }


def _rows(resources: Iterable[Resource]) -> Iterable[dict[str, Any]]:
    for resource in resources:
        yield {
            "name": resource.plural,
            "singularName": resource.singular_name,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": list(resource.verbs),
            "shortNames": list(resource.short_names),
            "categories": list(resource.categories),
        }
        for name in resource.subresources:
            group, version, kind = _subresource_kind(resource, name)
            yield {
                "name": f"{resource.plural}/{name}",
                "singularName": "",
                "namespaced": resource.namespaced,
                "group": group,
                "version": version,
                "kind": kind,
                "verbs": _subresource_verbs(name),
            }
