"""The records of the mirror have the form that they had in each release: old and new services read one mirror while
they are replaced (docs/operating/version-skew.md).

One document per release, as msgspec describes the records. A field may be added if it has a default: entries of the
older release lack it, and the older release ignores it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shared.domain.records import RECORD_TYPES

DOCUMENTS = sorted((Path(__file__).parent / "records").glob("*.json"))
ROOTS, PARTS = msgspec.json.schema_components(
    RECORD_TYPES.values(), schema_hook=lambda _: {"any": True}
)
NOW = {"kinds": dict(zip(RECORD_TYPES, ROOTS, strict=True)), "parts": PARTS}


def plain(schema: Any) -> Any:
    """Without the texts for people."""
    if isinstance(schema, dict):
        kept = {k: v for k, v in schema.items() if k not in ("description", "title")}
        return {name: plain(value) for name, value in kept.items()}
    return [plain(one) for one in schema] if isinstance(schema, list | tuple) else schema


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What one of the two cannot read of the other, by part and field."""
    kinds = before["kinds"].items()
    found = [f"{kind}: another record" for kind, root in kinds if now["kinds"].get(kind) != root]
    for name, old in before["parts"].items():
        new = now["parts"].get(name, {"properties": {}, "required": []})
        if sorted(old["required"]) != sorted(new["required"]):
            found.append(f"{name}: other fields are required")
        found += [
            f"{name}.{field}: changed or gone"
            for field, schema in old["properties"].items()
            if new["properties"].get(field) != schema
        ]
    return found


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_the_release_and_this_version_read_each_others_mirror(path: Path) -> None:
    assert differences(json.loads(path.read_text()), plain(NOW)) == []


def test_a_field_with_another_default_or_type_and_a_required_one_are_found() -> None:
    before = plain(NOW)
    now = json.loads(json.dumps(before))
    now["parts"]["Pod"]["properties"]["uid"] = {"type": "integer"}
    now["parts"]["Pod"]["properties"]["added"] = {"type": "string"}
    now["parts"]["Node"]["required"] += ["added"]
    del now["parts"]["Volume"]
    found = differences(before, now)
    assert {"Pod.uid: changed or gone", "Node: other fields are required"} <= {*found}
    assert not [one for one in found if "added:" in one]
    assert [one for one in found if one.startswith("Volume.")]
