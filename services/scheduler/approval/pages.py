"""``/approvals/ID/approve`` and ``/approvals/ID/reject``: the pages of signed links, for people in a browser.

GET shows the change and a button, and answers nothing: programs that look at links in messages do no harm. The button
sends a POST to the same address. The signature is the credential, so no token is asked for, whatever QUESTIONS says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape

from services.scheduler.approval.approvals import Approvals
from services.scheduler.approval.documents import change_lines
from services.scheduler.approval.links import APPROVE, REJECT, Links
from shared.concurrency.clock import Clock, rfc3339
from shared.disruption.approval import Answer, Offer, Outcome, deadline
from shared.errors import TransientError
from shared.runtime.services import Answer as Reply
from shared.runtime.services import Question

HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
}
STYLE = "body{font:16px/1.5 system-ui;max-width:50rem;margin:3rem auto;padding:0 1rem}pre{white-space:pre-wrap}"
WORDS = {APPROVE: "Approve", REJECT: "Reject"}
MOST_BYTES = 1024
"""Of the button's POST, which says nothing."""
ABSENT = (
    "No such command waits for approval: it ended, or Redis lost it and it will be offered again."
)


@dataclass(frozen=True)
class ApprovalPages:
    """``who``: what is noted as the one who answered."""

    approvals: Approvals
    links: Links
    clock: Clock
    who: str

    def questions(self) -> list[Question]:
        """Both pages."""
        path = "/approvals/{id}/{answer}"
        return [
            Question(path, "The page of a signed link", self.show, 0, method="GET"),
            Question(path, "The button of that page", self.take, MOST_BYTES),
        ]

    async def show(self, body: bytes, query: Mapping[str, str]) -> Reply:
        """The change and the button."""
        del body
        return await self._page(query, send=False)

    async def take(self, body: bytes, query: Mapping[str, str]) -> Reply:
        """The answer counts."""
        del body
        return await self._page(query, send=True)

    async def _page(self, query: Mapping[str, str], *, send: bool) -> Reply:
        id_, answer = query.get("id", ""), query.get("answer", "")
        if answer not in WORDS:
            return _html(404, "There is no such page.")
        why = self.links.refusal(id_, answer, query, now=self.clock.now())
        if why:
            return _html(403, why)
        try:
            if send:
                given = Answer(answer == APPROVE, self.who, self.clock.now())
                offer, is_new = await self.approvals.answer(id_, given)
            else:
                offer, is_new = await self.approvals.find(id_), False
        except TransientError as error:
            return _html(503, f"Redis does not answer, try again: {error.message}")
        if offer is None:
            return _html(404, ABSENT)
        if is_new or offer.outcome is not Outcome.WAITING:
            return _html(200 if is_new or not send else 409, _came_to(offer), change_lines(offer))
        question = f"{WORDS[answer]} this change? It waits until {rfc3339(deadline(offer))}."
        return _html(200, question, change_lines(offer), button=WORDS[answer])


def _came_to(offer: Offer) -> str:
    answer = offer.answer
    if answer is None:
        return f"Nothing was answered: the command has {offer.outcome.value}."
    word = "Approved" if answer.approved else "Rejected"
    more = "" if offer.ended is None else f" The command has {offer.outcome.value}."
    return f"{word} by {answer.who} at {rfc3339(answer.at)}.{more}"


def _html(status: int, text: str, lines: Iterable[str] = (), button: str = "") -> Reply:
    shown = "\n".join(map(escape, lines))
    change = f"<pre>{shown}</pre>" if shown else ""
    form = f'<form method="post"><button>{escape(button)}</button></form>' if button else ""
    body = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Dovetail: approval</title>'
        f"<style>{STYLE}</style></head><body><h1>Approval</h1><p>{escape(text)}</p>{change}{form}</body></html>"
    )
    return Reply(status, body.encode(), "text/html; charset=utf-8", HEADERS)
