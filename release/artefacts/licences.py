"""The licences of the packages in the locks, from the metadata of what is installed.

A licence that is not allowed here ends a release: someone has to read it first. Metadata says it in one of three ways:
an SPDX expression, classifiers, or a free text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from email.message import Message
from importlib.metadata import PackageNotFoundError, distribution

ALLOWED = frozenset(
    (
        *(
            "0BSD",
            "Apache-2.0",
            "BSD",
            "BSD-2-Clause",
            "BSD-3-Clause",
            "CC0-1.0",
            "ISC",
            "MIT",
            "MIT-0",
        ),
        *("MPL-2.0", "PSF-2.0", "Zlib"),
    )
)
"""Identifiers of SPDX, and ``BSD``, which is what classifiers say of every BSD licence. MPL-2.0 binds the files of its
own package only."""
CLASSIFIERS = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "MIT No Attribution License (MIT-0)": "MIT-0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "The Unlicense (Unlicense)": "Unlicense",
}
TEXTS = {
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "3-Clause BSD License": "BSD-3-Clause",
    "BSD 3-Clause": "BSD-3-Clause",
    "MIT License": "MIT",
    "PSFL": "PSF-2.0",
}
_PIN = re.compile(r"^([\w.-]+)==([^\s;]+)", re.MULTILINE)
_OPERATORS = re.compile(r"\s+(?:AND|OR)\s+|[()]")


@dataclass(frozen=True)
class Licence:
    """What one package says of itself. ``expression`` is empty when it says nothing that is known here."""

    package: str
    version: str
    expression: str

    def refused(self) -> list[str]:
        """What is not allowed. Every part of an expression must be, also each of two alternatives."""
        parts = [part.strip() for part in _OPERATORS.split(self.expression) if part.strip()]
        return [part for part in parts if part not in ALLOWED] if parts else ["no licence"]


def expression_of(metadata: Message) -> str:
    """The SPDX expression of a package; empty when its metadata has none that is known here."""
    if stated := metadata.get("License-Expression"):
        return str(stated)
    text = str(metadata.get("License") or "").strip()
    classifiers = [str(one) for one in metadata.get_all("Classifier") or []]
    names = [one.rpartition(" :: ")[2] for one in classifiers if one.startswith("License :: ")]
    known = [CLASSIFIERS.get(name, name) for name in names if name != "OSI Approved"]
    if text in ALLOWED or text in TEXTS:
        return TEXTS.get(text, text)
    return " AND ".join(known)


def licences(lock: str) -> list[Licence]:
    """Of each package that a lock pins. Raises ValueError for one that is not installed in that version."""
    found = []
    for name, version in sorted(set(_PIN.findall(lock))):
        try:
            one = distribution(name)
        except PackageNotFoundError:
            raise ValueError(
                f"{name} {version} is not installed here; run make locks or make"
            ) from None
        if one.version != version:
            raise ValueError(f"{name} is {one.version} here and {version} in the lock")
        found.append(Licence(name, version, expression_of(one.metadata)))  # type: ignore[arg-type]
    return found


def report(found: Iterable[Licence]) -> str:
    """A table in Markdown."""
    rows = [f"| {one.package} | {one.version} | {one.expression or 'none'} |" for one in found]
    return "\n".join(("| package | version | licence |", "|---|---|---|", *rows, ""))
