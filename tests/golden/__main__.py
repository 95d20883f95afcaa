"""``python -m tests.golden VERSION``: write down what this version promises to the one that replaces it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.golden import test_records, test_rights

FOLDER = Path(__file__).parent


def main(version: str) -> None:
    """Write one document of records and one of rights; existing ones of the version are replaced."""
    rights = {"redis": test_rights.redis_rights(), "kubernetes": test_rights.account_rights()}
    write("records", version, test_records.plain(test_records.NOW))
    write("rights", version, {part: ordered(found) for part, found in rights.items()})


def ordered(rights: dict[str, set[str]]) -> dict[str, list[str]]:
    return {who: sorted(rights[who]) for who in sorted(rights)}


def write(folder: str, version: str, document: Any) -> None:
    path = FOLDER / folder / f"{version}.json"
    path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
