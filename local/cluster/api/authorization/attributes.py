"""The attributes of a request that roles refer to."""

from __future__ import annotations

from dataclasses import dataclass

from local.cluster.api.errors import ApiError
from local.cluster.api.requests import Query, Target

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get"}


@dataclass(frozen=True)
class Attributes:
    """A request on ``resource`` or, when that is empty, on ``path``."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def full_resource(self) -> str:
        """``pods`` or ``pods/status``."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    def refused(self, user_name: str, reason: str = "") -> ApiError:
        """403 with the text of a real server; ``reason`` states why no role could be found."""
        if not self.resource:
            description = f'User "{user_name}" cannot {self.verb} path "{self.path}"'
            text = f"forbidden: {description}"
            details = {}
        else:
            description = (
                f'User "{user_name}" cannot {self.verb} resource "{self.full_resource}" '
                f'in API group "{self.group}" {self._scope()}'
            )
            text = f"{self._object()} is forbidden: {description}"
            details = {"name": self.name, "group": self.group, "kind": self.resource}
        details = {key: value for key, value in details.items() if value}
        return ApiError(403, "Forbidden", f"{text}: {reason}" if reason else text, details)

    def _scope(self) -> str:
        return f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"

    def _object(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        return f'{kind} "{self.name}"' if self.name else kind


def resource_attributes(method: str, target: Target, query: Query) -> Attributes:
    """The attributes of a request on a resource. ``target.plural`` must not be empty."""
    verb, name = _VERBS[method], target.name
    if not name:
        name = _selected_name(query) if method == "GET" else ""
        verb = _collection_verb(verb, query)
    namespace = target.namespace
    if target.plural == "namespaces" and not target.group:
        namespace = target.name
    return Attributes(
        verb, target.group, target.version, target.plural, target.subresource, namespace, name
    )


def path_attributes(method: str, path: str) -> Attributes:
    """The attributes of a request on a path that is no resource, such as ``/version``."""
    return Attributes(method.lower(), path=path)


def _collection_verb(verb: str, query: Query) -> str:
    if verb == "get":
        return "watch" if query.flag("watch") else "list"
    return "deletecollection" if verb == "delete" else verb


def _selected_name(query: Query) -> str:
    # A role with resourceNames thereby allows a watch on the one object that it names.
    for part in query.text("fieldSelector").split(","):
        key, equals, value = part.partition("=")
        if equals and key.strip() == "metadata.name":
            return value.removeprefix("=").strip()
    return ""
