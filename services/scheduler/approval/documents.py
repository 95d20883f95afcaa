"""Offers as JSON, for ``/status`` and for who answers: pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shared.concurrency.clock import rfc3339
from shared.disruption.approval import Offer, deadline, requiring_pools

MOST_NAMED = 20
"""Machines of one command that are named."""


def summary(offer: Offer) -> dict[str, Any]:
    """What became of it, who answered and when."""
    answer = offer.answer
    return {
        "id": offer.id,
        "outcome": offer.outcome.value,
        "text": offer.command.text,
        "reason": offer.command.reason,
        "pools": [pool.key for pool in requiring_pools(offer.command)],
        "why": offer.why,
        "endedAt": rfc3339(offer.ended_at) if offer.ended is not None else None,
        "answer": answer
        and {
            "approved": answer.approved,
            "who": answer.who,
            "verified": answer.verified,
            "at": rfc3339(answer.at),
            "reason": answer.reason,
        },
    }


def document(offer: Offer) -> dict[str, Any]:
    """The whole change: which machines go, which come, and what that saves."""
    command = offer.command
    return {
        **summary(offer),
        "method": command.method,
        "goes": [
            {
                "machine": c.machine.key,
                "node": c.node.name,
                "instanceType": c.machine.instance_type,
                "capacityType": c.machine.capacity_type,
            }
            for c in command.candidates[:MOST_NAMED]
        ],
        "going": len(command.candidates),
        "comes": [
            {
                "pool": planned.pool_key,
                "instanceType": planned.instance_types[0] if planned.instance_types else "",
                "capacityType": planned.offering.capacity_type,
                "zone": planned.offering.zone,
            }
            for planned in command.replacements[:MOST_NAMED]
        ],
        "coming": len(command.replacements),
        "movedPods": command.moved_pods,
        "savingPerHour": command.saving_micro_usd_per_hour / 1e6,
        "offeredAt": rfc3339(offer.offered_at),
        "expiresAt": rfc3339(deadline(offer)),
    }


def change_lines(offer: Offer) -> list[str]:
    """The change in words: what the command does, which machines go, which come."""
    whole = document(offer)
    gone = (f"- {m['node']} {m['instanceType']} {m['capacityType']}" for m in whole["goes"])
    new = (f"+ {m['instanceType']} {m['zone']} {m['capacityType']}" for m in whole["comes"])
    more = (whole["going"] - len(whole["goes"]), whole["coming"] - len(whole["comes"]))
    return [
        f"{whole['id']} {', '.join(whole['pools'])} ({whole['reason']}): {whole['text']}",
        *gone,
        *([f"- and {more[0]} more"] if more[0] else []),
        *new,
        *([f"+ and {more[1]} more"] if more[1] else []),
    ]


def report(offers: Iterable[Offer]) -> dict[str, Any]:
    """What waits, the oldest first, and what ended, the newest first, with who answered and when: for those who may
    answer."""
    known = sorted(offers, key=lambda offer: (offer.offered_at, offer.id))
    ended = [offer for offer in known if offer.ended is not None]
    return {
        "waiting": [document(offer) for offer in known if offer.ended is None],
        "ended": [summary(one) for one in sorted(ended, key=lambda one: (-one.ended_at, one.id))],
    }


def without_names(found: Mapping[str, Any]) -> dict[str, Any]:
    """A document for everybody: who answered, and the words that they gave, are for those who may answer."""
    answer = found["answer"]
    kept = answer and {name: answer[name] for name in ("approved", "at")}
    private = answer and answer["reason"] and found["why"] == answer["reason"]
    return {**found, "answer": kept, **({"why": ""} if private else {})}
