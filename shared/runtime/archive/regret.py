"""What the consolidations of a recorded period saved: read from the archive, and as a document."""

from __future__ import annotations

from typing import Any

from shared.concurrency.clock import rfc3339
from shared.domain.records import MACHINES, PODS, decode_record
from shared.runtime.archive.history import History, Priced
from shared.runtime.archive.reading import Archive, Seen
from shared.simulation.decisions.records import DecisionRecord
from shared.simulation.ledgers.allocation import MICRO
from shared.simulation.ledgers.regret import Account, Regret, Total


async def regret_of(archive: Archive, begin: float, end: float) -> tuple[Regret, int]:
    """The accounts of a period, and how many series of the log are not complete."""
    found, history = Regret(), History(archive, (MACHINES, PODS))
    async for one in history.between(begin, end):
        if isinstance(one, Priced):
            found.priced(one.prices)
        elif isinstance(one, DecisionRecord):
            found.decided(one)
        else:
            _follow(found, one)
    return found, history.gaps


def _follow(found: Regret, seen: Seen) -> None:
    record = None if seen.body is None else decode_record(seen.kind, seen.body)
    if seen.kind == PODS:
        found.pod(seen.key, record)
    else:
        found.machine(seen.at, seen.key, record)


def regret_document(found: Regret, begin: float, end: float, gaps: int) -> dict[str, Any]:
    """Amounts in US dollars; ``until``: why the account was closed."""
    return {
        "from": rfc3339(begin),
        "to": rfc3339(end),
        "commands": [account_row(account, end) for account in found.accounts.values()],
        "totals": [total_row(total) for total in found.totals(end)],
        "gaps": gaps,
    }


def account_row(account: Account, end: float) -> dict[str, Any]:
    """One command. What it promised is null where its decision is not recorded."""
    command, promise = account.command, account.promise
    return {
        "id": command.id,
        "at": rfc3339(account.at),
        "pools": list(account.pools),
        "method": command.method,
        "reason": command.reason,
        "promisedPerHour": account.promised_per_hour / MICRO if promise else None,
        "seconds": round(account.until(end) - account.at, 1),
        "promised": _dollars(account.promised(end)) if promise else None,
        "saved": _dollars(account.saved(end)),
        "movedPods": account.moved_pods,
        "promisedMoves": promise.outcome.moved_pods if promise else None,
        "moveCost": _dollars(account.move_cost()),
        "net": _dollars(account.net(end)),
        "until": account.why,
    }


def total_row(total: Total) -> dict[str, Any]:
    """All commands of one pool and reason."""
    return {
        "pools": list(total.pools),
        "reason": total.reason,
        "commands": total.commands,
        "promised": _dollars(total.promised),
        "saved": _dollars(total.saved),
        "movedPods": total.moved_pods,
        "net": _dollars(total.net),
        "regretted": total.regretted,
    }


def _dollars(micro: float) -> float:
    return round(micro / MICRO, 6)
