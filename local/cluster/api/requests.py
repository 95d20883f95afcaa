"""Decoded HTTP requests: the object of the path, the options of the query, the content of the body.

Query booleans follow Go's ParseBool, because kubernetes_asyncio sends ``watch=True``. YAML timestamps remain text, as
in JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson
import yaml

from local.cluster.api.errors import ApiError, bad_request, unsupported_media_type
from local.cluster.api.protobuf.decoding import UnknownKindError, decoded

TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
FALSE = frozenset({"", "0", "f", "F", "false", "FALSE", "False"})
BODY_LIMIT = 3 * 1024 * 1024
"""Largest body in bytes, the same as the real server's."""
NESTING_LIMIT = 200
"""Most levels of a YAML body, far more than any schema has."""

JSON, YAML = "application/json", "application/yaml"
APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"
JSON_PATCH, STRATEGIC = "application/json-patch+json", "application/strategic-merge-patch+json"
PATCHES = frozenset({APPLY, MERGE, JSON_PATCH, STRATEGIC})
PROTOBUF = "application/vnd.kubernetes.protobuf"
NAMESPACE_PARTS = ("status", "finalize")


class _TextTimestamps(yaml.CSafeLoader):
    """YAML without the timestamp type."""


_TextTimestamps.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for letter, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def _refuse_unsafe_yaml(content: bytes) -> None:
    """Raises ApiError 400 for YAML that is unsafe to load: deep nesting overflows the stack of libyaml's recursive
    loader and ends the process, and nested aliases expand to more than the memory holds. No client writes either.
    """
    depth = 0
    for event in yaml.parse(content, yaml.CSafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise bad_request("the request body has YAML aliases; write the value out")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > NESTING_LIMIT:
            raise bad_request(f"the request body is nested more than {NESTING_LIMIT} levels deep")


@dataclass(frozen=True)
class Target:
    """The object or collection of a path. ``plural`` is empty for the group itself, ``name`` for a collection."""

    group: str
    version: str
    namespace: str = ""
    plural: str = ""
    name: str = ""
    subresource: str = ""


@lru_cache(maxsize=4096)
def parse_path(path: str) -> Target | None:
    """``/apis/<group>/<version>[/namespaces/<ns>]/<plural>[/<name>[/<subresource>]]``; None for any other path."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 1:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 2:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    own_part = len(rest) == 3 and rest[2] in NAMESPACE_PARTS
    if len(rest) >= 3 and rest[0] == "namespaces" and not own_part:
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3 or not all(rest):
        return None
    plural, name, subresource = [*rest, "", "", ""][:3]
    return Target(group, version, namespace, plural, name, subresource)


class Query:
    """The query string with the API's types."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str) -> str:
        """The value, empty when missing."""
        return self._values.get(name, "")

    def flag(self, name: str) -> bool:
        """A boolean. Raises ApiError 400 for values that Go's ParseBool refuses."""
        value = self._values.get(name, "")
        if value not in TRUE and value not in FALSE:
            raise bad_request(
                f'query parameter {name}: "{value}" is not a boolean; use true or false'
            )
        return value in TRUE

    def number(self, name: str) -> int:
        """A whole number of at least 0, 0 when missing. Raises ApiError 400."""
        value = self._values.get(name, "") or "0"
        if not value.isdecimal():
            raise bad_request(
                f'query parameter {name}: "{value}" is not a whole number of at least 0'
            )
        return int(value)

    @property
    def dry_run(self) -> bool:
        """Whether the request must not be stored."""
        return bool(self._values.get("dryRun"))


@dataclass(frozen=True)
class Body:
    """A request body and its media type (lower case, without parameters)."""

    media_type: str
    content: bytes

    @classmethod
    def of(cls, content_type: str, content: bytes) -> Body:
        """Raises ApiError 413 for a body above ``BODY_LIMIT``."""
        if len(content) > BODY_LIMIT:
            message = f"Request entity too large: limit is {BODY_LIMIT}"
            raise ApiError(413, "RequestEntityTooLarge", message)
        return cls(content_type.partition(";")[0].strip().lower(), content)

    def value(self) -> Any:
        """The decoded body, None when empty. Raises ApiError 400 for malformed content."""
        if not self.content.strip():
            return None
        try:
            if self.media_type == PROTOBUF:
                return decoded(self.content)
            if "yaml" in self.media_type:
                _refuse_unsafe_yaml(self.content)
                return yaml.load(self.content, _TextTimestamps)
            return orjson.loads(self.content)
        except UnknownKindError as error:
            raise unsupported_media_type(f"{JSON}, {YAML} ({error})") from error
        except (yaml.YAMLError, ValueError) as error:
            text = str(error).replace("\n", " ")
            raise bad_request(f"the request body cannot be decoded: {text}") from error

    def object(self) -> dict[str, Any]:
        """The body as one object. Raises ApiError 400, and 415 for unsupported encodings."""
        if self.media_type not in ("", JSON, YAML, PROTOBUF, "*/*"):
            raise unsupported_media_type(f"{JSON}, {YAML}, {PROTOBUF}")
        value = self.value()
        if not isinstance(value, dict):
            raise bad_request(
                "the request body must be one JSON object; it is empty or something else"
            )
        return value

    def options(self) -> dict[str, Any]:
        """DeleteOptions; empty for an empty body."""
        return self.object() if self.content.strip() else {}
