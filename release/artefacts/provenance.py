"""Where artefacts come from, as an in-toto statement with SLSA's provenance (https://slsa.dev/spec/v1.0/provenance)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:dovetail:make-release:v1"
_USER = re.compile(r"(?<=://)[^/@]*@")


@dataclass(frozen=True)
class Origin:
    """What a release was made from. ``source``: the repository's address, without a user; empty when it has none."""

    version: str
    commit: str
    epoch: int
    source: str
    builder: str
    base_image: str
    started: str
    finished: str
    """Both as RFC 3339."""


def without_user(address: str) -> str:
    """An address without the name and password that it may contain."""
    return _USER.sub("", address)


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def statement(
    origin: Origin, artefacts: Iterable[Path], images: Mapping[str, str], materials: Iterable[Path]
) -> dict[str, Any]:
    """``images``: digests such as ``sha256:…`` by name. ``materials``: the locks, which name each package by hash."""
    subjects = [_named(path) for path in artefacts]
    subjects += [_resource(name, digest) for name, digest in images.items()]
    source = {"uri": f"git+{origin.source}@{origin.commit}"} if origin.source else {"name": "git"}
    base = [_base(origin.base_image)] if images else []
    return {
        "_type": STATEMENT,
        "subject": subjects,
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"version": origin.version, "commit": origin.commit},
                "internalParameters": {"SOURCE_DATE_EPOCH": origin.epoch},
                "resolvedDependencies": [
                    source | {"digest": {"gitCommit": origin.commit}},
                    *map(_named, materials),
                    *base,
                ],
            },
            "runDetails": {
                "builder": {"id": origin.builder},
                "metadata": {"startedOn": origin.started, "finishedOn": origin.finished},
            },
        },
    }


def _named(path: Path) -> dict[str, Any]:
    return {"name": path.name, "digest": {"sha256": sha256(path)}}


def _resource(name: str, digest: str) -> dict[str, Any]:
    kind, _, value = digest.partition(":")
    return {"name": name, "digest": {kind: value}}


def _base(image: str) -> dict[str, Any]:
    """The base image; without a digest it is only named."""
    name, _, digest = image.partition("@")
    return _resource(name, digest) if digest else {"name": name}


def checksums(artefacts: Iterable[Path]) -> str:
    """The lines of a file for ``sha256sum --check``, sorted by name."""
    return "".join(f"{sha256(path)}  {path.name}\n" for path in sorted(artefacts))
