"""One document per message type and version; each must decode as long as anybody reads the type (F30).

A changed message breaks nothing here, or it gets a new version and a document of its own beside the old ones.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shared.redis.bus import Envelope
from shared.redis.messages import RETIRED, TYPES, Retired, decode

DOCUMENTS = sorted((Path(__file__).parent / "messages").glob("*.json"))


def envelope_of(path: Path) -> Envelope:
    """``<Type>.v<version>.json`` holds the body."""
    kind, version = path.name.removesuffix(".json").split(".v")
    return Envelope(
        id="golden", type=kind, version=int(version), key="k", body=path.read_bytes(), at=1.0
    )


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_the_document_decodes_and_keeps_every_field(path: Path) -> None:
    message = decode(envelope_of(path))
    assert type(message).__name__ == envelope_of(path).type
    assert message.key
    assert json.loads(message.model_dump_json()).items() >= json.loads(path.read_bytes()).items()


def test_every_type_has_a_document_of_its_present_version() -> None:
    present = {f"{name}.v{kind.version}" for name, kind in TYPES.items()}
    assert present <= {path.stem for path in DOCUMENTS}


@pytest.mark.parametrize("name", RETIRED)
def test_a_retired_type_is_dropped_and_not_dead_lettered(name: str) -> None:
    """F30: an older build's message may still be in a stream after an upgrade, with a body that nobody can check."""
    body = b'{"machine":"NodeClaim/default-abc"}'
    for version in (1, 2):
        envelope = Envelope(id="old", type=name, version=version, key="k", body=body, at=1.0)
        assert decode(envelope) == Retired(type=name)
    assert name not in TYPES, "a type that is sent again must be read again"
