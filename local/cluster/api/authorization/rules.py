"""Whether one PolicyRule allows one request, and whether one subject matches one user.

Pure: no store, no clock. The semantics are those of Kubernetes' documentation of its RBAC authorizer.
"""

from __future__ import annotations

from typing import Any

from local.cluster.api.authorization.attributes import Attributes
from local.cluster.api.authorization.users import User, account_name

ANY = "*"
Rule = dict[str, Any]
"""A PolicyRule as decoded JSON."""


def rule_allows(rule: Rule, attributes: Attributes) -> bool:
    """Whether ``rule`` alone allows the request."""
    if not _holds(rule, "verbs", attributes.verb):
        return False
    if not attributes.resource:
        return _path_allowed(rule, attributes.path)
    return (
        _holds(rule, "apiGroups", attributes.group)
        and _resource_allowed(rule, attributes)
        and _name_allowed(rule, attributes.name)
    )


def _holds(rule: Rule, field: str, value: str) -> bool:
    allowed = rule.get(field) or ()
    return ANY in allowed or value in allowed


def _resource_allowed(rule: Rule, attributes: Attributes) -> bool:
    # "*" includes subresources, "pods" excludes them, "*/status" is that subresource of every kind.
    if _holds(rule, "resources", attributes.full_resource):
        return True
    return bool(attributes.subresource) and f"*/{attributes.subresource}" in (
        rule.get("resources") or ()
    )


def _name_allowed(rule: Rule, name: str) -> bool:
    # A request without a name (create, list) is never allowed by a rule that names objects.
    names = rule.get("resourceNames") or ()
    return not names or name in names


def _path_allowed(rule: Rule, path: str) -> bool:
    for allowed in rule.get("nonResourceURLs") or ():
        if allowed in (ANY, path):
            return True
        if allowed.endswith(ANY) and path.startswith(allowed.rstrip(ANY)):
            return True
    return False


def subject_means(subject: dict[str, Any], user: User, binding_namespace: str) -> bool:
    """Whether a binding's subject is ``user``, one of its groups or its ServiceAccount.

    ``binding_namespace`` is empty for a ClusterRoleBinding.
    """
    kind, name = subject.get("kind"), subject.get("name", "")
    if kind == "User":
        return bool(name == user.name)
    if kind == "Group":
        return name in user.groups
    if kind == "ServiceAccount":
        namespace = subject.get("namespace") or binding_namespace
        return bool(namespace) and user.name == account_name(namespace, name)
    return False
