"""Loads AWS service models reduced to the operations that Dovetail calls.

botocore reads the whole model of a service into ordered dicts: EC2 alone has 700 operations and costs 25 MB in each
process. A reduced model keeps the operations of ``OPERATIONS`` and the shapes that they refer to.

What may go wrong: calling an operation that is not listed raises AttributeError, which any test of that call shows. A
service that is not listed is loaded whole.
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Any

import msgspec
import orjson

from shared.cloud.client.answers.expected import EXPECTED

OPERATIONS: dict[str, frozenset[str]] = {name: frozenset(rows) for name, rows in EXPECTED.items()}
"""Service -> its operations; each has a row of required elements in ``expected``."""
_SERVICE_MODEL = "service-2"
Json = dict[str, Any]


class CompactFileLoader:
    """The ``file_loader`` of a botocore ``Loader``: JSON files, plain or gzipped, as plain dicts."""

    def exists(self, file_path: str) -> bool:
        """Whether there is a file of this path, which is given without its suffix."""
        return _find(file_path) is not None

    def load_file(self, file_path: str) -> Json | None:
        """The document; a service model is reduced to ``OPERATIONS``. None when there is no such file."""
        found = _find(file_path)
        if found is None:
            return None
        content = found.read_bytes()
        if found.suffix == ".gz":
            content = gzip.decompress(content)
        service = found.parent.parent.name
        if found.name.partition(".json")[0] == _SERVICE_MODEL and service in OPERATIONS:
            return trim(content, OPERATIONS[service])
        document: Json = orjson.loads(content)
        return document


def _find(file_path: str) -> Path | None:
    for suffix in (".json", ".json.gz"):
        path = Path(file_path + suffix)
        if path.is_file():
            return path
    return None


def trim(model: bytes, operations: frozenset[str]) -> Json:
    """The model with these operations and every shape that they refer to, without documentation.

    Only the kept parts are decoded: decoding the whole of EC2 would leave 20 MB of fragmented memory behind.
    """
    parts = _decode_parts(model)
    kept = {
        n: _whole(raw) for n, raw in _decode_parts(parts["operations"]).items() if n in operations
    }
    shapes = _decode_parts(parts["shapes"])
    reached: Json = {}
    waiting = [reference["shape"] for body in kept.values() for reference in _roots(body)]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached[name] = _whole(shapes[name])
            waiting += _members(reached[name])
    rest = {n: _whole(raw) for n, raw in parts.items() if n not in ("operations", "shapes")}
    return {**rest, "operations": kept, "shapes": reached}


_decode_parts = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def _whole(raw: msgspec.Raw) -> Any:
    return _undocumented(msgspec.json.decode(raw))


def _roots(operation: Json) -> list[Json]:
    named = [operation[part] for part in ("input", "output") if part in operation]
    return [*named, *operation.get("errors", ())]


def _members(shape: Json) -> list[str]:
    references = (
        [*shape.get("members", {}).values()] if isinstance(shape.get("members"), dict) else []
    )
    references += [shape[part] for part in ("member", "key", "value") if part in shape]
    return [reference["shape"] for reference in references]


def _undocumented(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _undocumented(item)
            for key, item in value.items()
            if key != "documentation" or not isinstance(item, str)
        }
    if isinstance(value, list):
        return [_undocumented(item) for item in value]
    # A model repeats "structure" and each shape's name thousands of times: interning keeps one copy of each.
    return sys.intern(value) if isinstance(value, str) else value
