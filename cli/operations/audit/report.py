"""What is printed: one line per promise, then each finding with its next step; or the same as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from cli.operations.audit.catalogue import Verdict
from cli.operations.audit.finding import Finding
from cli.operations.audit.rounds import Audit, Change
from cli.printing import print_line, print_table
from cli.text import counted, escaped
from shared.concurrency.clock import rfc3339

COLOURS = {"holds": "green", "broken": "red", "not judged": "yellow", "skipped": "dim"}
MOST_SHOWN = 20
"""Findings of one promise that are printed; JSON has all."""


def print_audit(audit: Audit) -> None:
    """For people."""
    rows = [
        (one.promise, Text(one.result, COLOURS[one.result]), _summary(one))
        for one in audit.verdicts
    ]
    print_table(("promise", "result", "found"), rows)
    for verdict in audit.verdicts:
        for line in _lines(verdict):
            print_line(line)
    for unreadable in audit.reading.unreadable[:MOST_SHOWN]:
        print_line(escaped(f"not judged: {unreadable.key} cannot be read: {unreadable.problem}"))
    results = [one.result for one in audit.verdicts]
    counts = ", ".join(f"{results.count(name)} {name}" for name in COLOURS if name in results)
    print_line(f"{counted(len(results), 'promise')}: {counts}")


def _summary(verdict: Verdict) -> str:
    if verdict.unread:
        return escaped(verdict.unread)
    named = len(verdict.findings) - len(verdict.broken)
    parts = (
        (len(verdict.broken), counted(len(verdict.broken), "finding")),
        (named, f"{named} named only"),
    )
    return ", ".join(text for count, text in parts if count)


def _lines(verdict: Verdict) -> Iterator[str]:
    for one in verdict.findings[:MOST_SHOWN]:
        word = "" if one.counts else " (does not count)"
        yield escaped(f"{verdict.promise}: {_sentence(one)}{word}")
        yield escaped(f"  -> {one.next_step}")
    more = len(verdict.findings) - MOST_SHOWN
    if more > 0:
        yield f"{verdict.promise}: {more} more; -o json has all"


def _sentence(finding: Finding) -> str:
    since = f", since {rfc3339(finding.since)}" if finding.since else ""
    return f"{finding.subject}: {finding.found}{since}"


def print_change(change: Change) -> None:
    """One line for people, with the next step of what broke."""
    text = change.why if change.finding is None else _sentence(change.finding)
    said = ": ".join(part for part in (change.change, change.promise, text) if part)
    print_line(escaped(f"{rfc3339(change.at)} {said}"))
    if change.finding is not None and change.change == "broken":
        print_line(escaped(f"  -> {change.finding.next_step}"))


def document(audit: Audit) -> dict[str, Any]:
    """The same for programs."""
    return {
        "at": rfc3339(audit.reading.at),
        "promises": [
            {
                "promise": one.promise,
                "result": one.result,
                "why": one.unread,
                "findings": [_object(finding) for finding in one.findings],
            }
            for one in audit.verdicts
        ],
        "unreadable": [
            {"object": one.key, "problem": one.problem} for one in audit.reading.unreadable
        ],
    }


def change_document(change: Change) -> dict[str, Any]:
    """One change for programs."""
    about = _object(change.finding) if change.finding is not None else {"why": change.why}
    at = rfc3339(change.at)
    return {"at": at, "change": change.change, "promise": change.promise, **about}


def _object(finding: Finding) -> dict[str, Any]:
    return {
        "object": finding.subject,
        "found": finding.found,
        "since": rfc3339(finding.since) if finding.since else None,
        "next": finding.next_step,
        "counts": finding.counts,
    }
