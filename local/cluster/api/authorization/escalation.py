"""Prevents privilege escalation: the author of a role or a binding must have the granted rights, or the right to
escalate or bind.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from local.cluster.api.authorization.attributes import Attributes
from local.cluster.api.authorization.authorizer import Authorizer
from local.cluster.api.authorization.role_checks import BINDINGS, ROLES
from local.cluster.api.authorization.rules import Rule, rule_allows
from local.cluster.api.authorization.users import MASTERS, User
from local.cluster.api.errors import ApiError, forbidden
from local.cluster.builtin.resources import RBAC_GROUP, Resource
from local.cluster.storage.store import Store

Document = dict[str, Any]


def check_grant(
    store: Store, authorizer: Authorizer, user: User, resource: Resource, document: Document
) -> None:
    """Raises ApiError 403 when ``user`` would grant rights by a role or a binding that the user does not have."""
    if resource.group != RBAC_GROUP or MASTERS in user.groups:
        return
    metadata = document.get("metadata") or {}
    namespace = (metadata.get("namespace") or "") if resource.namespaced else ""
    if resource.plural in ROLES:
        rules, verb, plural = document.get("rules") or [], "escalate", resource.plural
        name = metadata.get("name") or ""
    elif resource.plural in BINDINGS:
        reference = document.get("roleRef") or {}
        verb, name = "bind", reference.get("name") or ""
        plural = "clusterroles" if reference.get("kind") == "ClusterRole" else "roles"
        rules = _rules_of(store, plural, name, namespace)
    else:
        return
    attributes = Attributes(verb, RBAC_GROUP, "v1", plural, "", namespace, name)
    if authorizer.decide(user, attributes).allowed:
        return
    owned = authorizer.rules_of(user, namespace)
    missing = [rule for rule in rules if not _covered(rule, owned)]
    if missing:
        raise _refusal(user, resource, str(metadata.get("name") or ""), missing)


def _rules_of(store: Store, plural: str, name: str, namespace: str) -> list[Rule]:
    space = namespace if plural == "roles" else None
    role = store.find(plural, name, group=RBAC_GROUP, namespace=space)
    return list((role or {}).get("rules") or ())


def _covered(rule: Rule, owned: tuple[Rule, ...]) -> bool:
    return all(any(rule_allows(own, one) for own in owned) for one in _parts(rule))


def _parts(rule: Rule) -> Iterator[Attributes]:
    """Every single right of a rule; a wildcard is a separate right that only a wildcard covers."""
    verbs = rule.get("verbs") or ()
    for verb, path in product(verbs, rule.get("nonResourceURLs") or ()):
        yield Attributes(verb, path=path)
    groups, resources = rule.get("apiGroups") or (), rule.get("resources") or ()
    for verb, group, full, name in product(
        verbs, groups, resources, rule.get("resourceNames") or [""]
    ):
        plural, _, subresource = full.partition("/")
        yield Attributes(verb, group, "v1", plural, subresource, name=name)


def _refusal(user: User, resource: Resource, name: str, missing: list[Rule]) -> ApiError:
    groups = " ".join(f'"{group}"' for group in user.groups)
    missing_rules = "\n".join(str(rule) for rule in missing)
    why = (
        f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions '
        f"not currently held:\n{missing_rules}"
    )
    return forbidden(resource, name, why)
