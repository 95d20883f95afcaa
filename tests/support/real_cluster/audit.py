"""What the API server answered to the services, by its audit log."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ACCOUNTS = "system:serviceaccount:dovetail:dovetail-"


class Answer(NamedTuple):
    """One kind of request and how it was answered."""

    code: int
    service: str
    verb: str
    resource: str


def refusals(log: Path, start: int = 0) -> Counter[Answer]:
    """How often a service got which answer of 400 or above; ``start``: bytes of the log to leave out."""
    with log.open("rb") as source:
        source.seek(start)
        lines = source.read().rpartition(b"\n")[0].splitlines()
    found: Counter[Answer] = Counter()
    for line in lines:
        event = json.loads(line)
        user, code = event["user"].get("username", ""), event.get("responseStatus", {}).get("code")
        if not user.startswith(ACCOUNTS) or code is None or code < 400:
            continue
        what = event.get("objectRef") or {}
        resource = "/".join(filter(None, (what.get("resource"), what.get("subresource"))))
        found[Answer(code, user.removeprefix(ACCOUNTS), event["verb"], resource)] += 1
    return found
