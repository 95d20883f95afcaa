"""The table of values in docs/operating/helm.md: meaning from the schema, defaults from values.yaml. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]
START = (
    "<!-- Generated from deploy/chart by make manifests: do not edit from here to the end. -->\n"
)
HEAD = "\n| value | default | meaning |\n|---|---|---|\n"
SHOWN = 60
"""Characters of a default; a longer one is in values.yaml."""
SAME_FOR_ALL = ("scheduler", "launcher", "terminator", "interruption", "console")
"""Services with the rows of the watcher."""


def with_reference(page: str, schema: Schema, values: Schema) -> str:
    """The page with its table as the chart is now. Raises ValueError for a page without the line ``START``."""
    before, found, _ = page.partition(START)
    if not found:
        raise ValueError(f"the page lacks the line {START.strip()}")
    return before + START + HEAD + "".join(rows(schema, values))


def rows(schema: Schema, values: Schema) -> Iterator[str]:
    """One row per value that is not an object, the services' once."""
    for name, one in schema["properties"].items():
        if name in SAME_FOR_ALL or name == "global":
            continue
        for path, found, default in _leaves(schema, name, one, values.get(name)):
            yield f"| `{_shown(path)}` | {_default(path, default)} | {_meaning(found)} |\n"
    enabled = schema["$defs"]["console"]["properties"]["enabled"]
    yield f"| `console.enabled` | `true` | {_meaning(enabled)} |\n"


def _leaves(
    schema: Schema, path: str, one: Schema, default: Any
) -> Iterator[tuple[str, Schema, Any]]:
    resolved = _resolved(schema, one)
    properties = resolved.get("properties", {})
    if not properties or path.endswith(("settings", "resources", "strategy")):
        yield path, resolved, default
        return
    for name, below in properties.items():
        known = default.get(name) if isinstance(default, dict) else None
        yield from _leaves(schema, f"{path}.{name}", below, known)


def _resolved(schema: Schema, one: Schema) -> Schema:
    reference = one.get("$ref", "").rpartition("/")[2]
    return {**schema["$defs"].get(reference, {}), **one}


def _shown(path: str) -> str:
    return path.replace("watcher.", "SERVICE.", 1) if path.startswith("watcher.") else path


def _default(path: str, value: Any) -> str:
    if path.startswith("watcher.") and path.endswith(("replicas", "strategy", "resources")):
        return "its own"
    if value in (None, "", [], {}):
        return ""
    text = value if isinstance(value, str) else json.dumps(value)
    return f"`{text}`" if len(text) <= SHOWN else "values.yaml"


def _meaning(one: Schema) -> str:
    words = [str(one.get("description", ""))]
    if "enum" in one:
        words.append("One of " + ", ".join(f"`{value}`" for value in one["enum"]) + ".")
    return " ".join(words).replace("|", "\\|")
