"""Manifests named on the command line: files, directories and standard input, as single Kubernetes objects.

Nothing raises here: what cannot be read at all (it is missing, too large, or no text) says so in ``unreadable``, and
wrong YAML is a fault with its place; the documents before it are still there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path as File
from typing import Any

from cli.manifests.yaml_documents import FormFault, Place, YamlDocument, read_yaml
from shared.api.faults import Fault, Path

MOST_BYTES = 16 * 1024 * 1024
MOST_FILES = 10_000
SUFFIXES = (".yaml", ".yml", ".json")
STANDARD_INPUT = "-"


@dataclass(frozen=True)
class Manifest:
    """One object and where it stands. ``base`` is its path inside of its YAML document: it may be an item of a List."""

    source: str
    document: Any
    yaml: YamlDocument
    base: Path = ()

    def place_of(self, path: Path) -> Place:
        """Where a field of the object stands, or its nearest parent."""
        return self.yaml.place_of((*self.base, *path))

    @property
    def faults(self) -> list[Fault]:
        """What is wrong with its YAML, such as a key that is there twice, by paths of the object."""
        length = len(self.base)
        inside = [one for one in self.yaml.faults if one.path[:length] == self.base]
        return [Fault(one.path[length:], one.message) for one in inside]


@dataclass
class ManifestFile:
    """What one file holds."""

    source: str
    manifests: list[Manifest] = field(default_factory=list)
    faults: list[FormFault] = field(default_factory=list)
    """What is wrong with its YAML outside of any object, such as the place where it ends to make sense."""
    unreadable: str = ""
    """Why nothing of it could be read."""


def read_manifests(names: Iterable[str]) -> Iterator[ManifestFile]:
    """The files in the order given, those of a directory by name."""
    for name in names:
        if name == STANDARD_INPUT:
            yield _read("stdin", _standard_input)
            continue
        hidden: list[OSError] = []
        files = _files(File(name), hidden.append)
        for error in hidden:
            yield ManifestFile(str(error.filename), unreadable=error.strerror or str(error))
        if not files and not hidden:
            yield ManifestFile(
                name, unreadable=f"no {', '.join(f'*{one}' for one in SUFFIXES)} in it"
            )
        if len(files) > MOST_FILES:
            yield ManifestFile(name, unreadable=f"more than {MOST_FILES} manifests; name fewer")
        for file in files[:MOST_FILES]:
            yield _read(str(file), partial(_beginning, file))


def _read(source: str, content: Callable[[], bytes]) -> ManifestFile:
    try:
        octets = content()
        if len(octets) > MOST_BYTES:
            return ManifestFile(source, unreadable=f"larger than {MOST_BYTES // 1024 // 1024} MiB")
        return parse_manifests(source, octets.decode("utf-8-sig"))
    except OSError as error:
        return ManifestFile(source, unreadable=error.strerror or str(error))
    except UnicodeDecodeError as error:
        return ManifestFile(source, unreadable=f"no UTF-8 text (byte {error.start})")


def _standard_input() -> bytes:
    if sys.stdin is None:  # the shell closed it: <&-
        raise OSError("standard input is closed")
    return sys.stdin.buffer.read(MOST_BYTES + 1)


def _beginning(file: File) -> bytes:
    with file.open("rb") as stream:
        return stream.read(MOST_BYTES + 1)


def parse_manifests(source: str, text: str) -> ManifestFile:
    """The objects in ``text``; Lists are taken apart, empty documents left out."""
    documents, broken = read_yaml(text)
    file = ManifestFile(source, faults=[broken] if broken is not None else [])
    for document in documents:
        whole = Manifest(source, document.value, document)
        if not _is_list(document.value):
            file.manifests += [whole] if document.value is not None else []
            continue
        items = document.value["items"]
        file.manifests += [
            Manifest(source, item, document, ("items", index)) for index, item in enumerate(items)
        ]
        file.faults += [one for one in document.faults if len(one.path) < len(("items", 0))]
    return file


def _is_list(document: object) -> bool:
    if not isinstance(document, dict) or document.get("kind") != "List":
        return False
    return isinstance(document.get("items"), list)


def _files(name: File, told: Callable[[OSError], None]) -> list[File]:
    """Those of a directory, or the one; ``told`` hears of directories that cannot be listed."""
    if not name.is_dir():
        return [name]
    found: list[File] = []
    for directory, below, files in os.walk(name, onerror=told):
        below.sort()
        paths = (File(directory, one) for one in sorted(files) if one.endswith(SUFFIXES))
        found += [path for path in paths if path.is_file()]
        if len(found) > MOST_FILES:
            break
    return found
