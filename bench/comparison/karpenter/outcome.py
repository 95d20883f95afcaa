"""What a run of specifications came to, beside the failures that are known and defended."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KNOWN = Path(__file__).with_name("known.toml")
Specifications = Mapping[str, str]
"""Specification -> why it failed, empty if it passed. Names are the texts of Ginkgo's containers and of the test."""


@dataclass(frozen=True)
class Outcome:
    """``passed`` of ``total``. ``known``: reason -> specifications that fail for it."""

    passed: int
    total: int
    known: Mapping[str, list[str]]
    unknown: Mapping[str, str]
    """Specification -> failure, of those that no reason names."""
    mended: tuple[str, ...]
    """Those that pass although a reason names them."""

    @property
    def is_as_known(self) -> bool:
        return not self.unknown and not self.mended


def read_report(path: Path) -> dict[str, str]:
    """The specifications of a JSON report of Ginkgo; what was skipped or is pending is left out."""
    found: dict[str, str] = {}
    for suite in json.loads(path.read_text()):
        for one in suite["SpecReports"] or ():
            if one["LeafNodeType"] == "It" and one["State"] not in ("skipped", "pending"):
                found[_free(_name(one), found)] = "" if one["State"] == "passed" else _failure(one)
    return found


def _free(name: str, taken: Mapping[str, str]) -> str:
    """Names may repeat: the second one gets a number."""
    numbers = (f"{name} #{number}" for number in range(2, len(taken) + 3))
    return name if name not in taken else next(one for one in numbers if one not in taken)


def _name(one: Mapping[str, Any]) -> str:
    texts = [*(one["ContainerHierarchyTexts"] or ()), one["LeafNodeText"]]
    return " ".join(" ".join(texts).split())


def _failure(one: Mapping[str, Any]) -> str:
    failure = one.get("Failure") or {}
    place = failure.get("FailureNodeLocation") or failure.get("Location") or {}
    line = f"{Path(place.get('FileName', '')).name}:{place.get('LineNumber', '')}"
    return f"{one['State']} {line}: {' '.join(str(failure.get('Message', '')).split())[:300]}"


def read_known(suite: str, path: Path = KNOWN) -> dict[str, list[str]]:
    """Reason -> parts of the names of specifications that are known to fail for it."""
    reasons = tomllib.loads(path.read_text()).get(suite, {})
    return {str(reason): list(parts) for reason, parts in reasons.items()}


def judged(found: Specifications, known: Mapping[str, list[str]]) -> Outcome:
    """The outcome of a run. ``known``: as ``read_known`` gives it."""
    failures = {name: why for name, why in found.items() if why}
    named = {
        reason: [name for name in found if any(part in name for part in parts)]
        for reason, parts in known.items()
    }
    expected = {name for names in named.values() for name in names}
    return Outcome(
        passed=len(found) - len(failures),
        total=len(found),
        known={reason: [n for n in names if n in failures] for reason, names in named.items()},
        unknown={name: why for name, why in failures.items() if name not in expected},
        mended=tuple(sorted(name for name in expected if name not in failures)),
    )


def lines(suite: str, outcome: Outcome) -> Iterator[str]:
    """The outcome for people."""
    yield f"{suite}: {outcome.passed} of {outcome.total} specifications pass with our planner"
    for reason, names in outcome.known.items():
        if names:
            yield f"  {len(names):3}  {reason}"
    for name, why in outcome.unknown.items():
        yield f"not known: {name}"
        yield f"    {why}"
    for name in outcome.mended:
        yield f"passes now, take it out of known.toml: {name}"
