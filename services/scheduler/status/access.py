"""Who may use ``/explain``, ``/explain/decisions`` and ``/simulate`` on the status port (setting QUESTIONS)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from services.scheduler.approval import endpoint
from services.scheduler.approval.endpoint import ApprovalEndpoint
from services.scheduler.status import explain, explain_record, simulate
from services.scheduler.status.explain import Explainer
from services.scheduler.status.explain_record import RecordExplainer
from services.scheduler.status.simulate import Simulator
from shared.concurrency.clock import Clock
from shared.kube.client import Kube
from shared.kube.token_access import TokenAccess
from shared.runtime.services import Answer, Question, json_answer
from shared.runtime.status.admission import PROFILE_PATH, by_token

OFF = (
    "questions are switched off here; QUESTIONS=authenticated on the scheduler allows them by token"
)
Admit = Callable[[str], Awaitable[Answer | None]]


def offered(
    mode: str,
    simulator: Simulator,
    explainer: Explainer,
    records: RecordExplainer,
    approvals: ApprovalEndpoint,
    access: TokenAccess,
) -> list[Question]:
    """All endpoints; where they are off, the answer says so. ``mode``: off, open or authenticated."""
    text = "What the planner would do with these objects"
    planning = (simulate.PATH, text, simulator.answer, simulate.MOST_BYTES)
    text = "Why this node is still there, or this pod pending"
    explaining = (explain.PATH, text, explainer.answer, explain.MOST_BYTES)
    return [
        Question(*planning, admission(mode, simulate.PATH, access), simulate.BODY),
        Question(*explaining, admission(mode, explain.PATH, access), explain.BODY),
        Question(
            explain_record.PATH,
            "What was recorded of this decision",
            records.answer,
            0,
            admission(mode, explain.PATH, access),
            method="GET",
        ),
        *_by_get(explainer, admission(mode, explain.PATH, access)),
        Question(
            endpoint.PATH,
            "The disruption commands that wait or ended, with who answered",
            approvals.listed,
            0,
            admission(mode, endpoint.PATH, access),
            method="GET",
        ),
        Question(
            f"{endpoint.PATH}/{{id}}",
            "Approve or reject a disruption command that waits",
            approvals.answer,
            endpoint.MOST_BYTES,
            admission(mode, endpoint.PATH, access),
            endpoint.BODY,
            caller=_caller(access) if mode == "authenticated" else None,
        ),
        *approvals.pages(),
    ]


def profile_admission(mode: str, kube: Kube, clock: Clock) -> Admit | None:
    """Of ``/debug/profile``, which PROFILING offers."""
    access = TokenAccess(kube, clock, verb="get")
    return by_token(access, PROFILE_PATH) if mode == "authenticated" else None


def _caller(access: TokenAccess) -> Callable[[str], Awaitable[str]]:
    """Who sends a credential that was admitted a moment ago: from the cache of verdicts, as a rule."""

    async def name(credential: str) -> str:
        return (await access.judge(credential, endpoint.PATH)).user

    return name


def _by_get(explainer: Explainer, admit: Admit | None) -> list[Question]:
    """The questions about one object, which browsers and ``curl`` ask."""
    texts = {
        explain.PODS: "Why this pod is pending, or which decision bought its node",
        explain.NODES: "Why this node is still there, and why it is of its type",
        explain.POOLS: "What this pool has, may buy and may disrupt",
    }
    return [
        Question(path, text, explainer.answer, 0, admit, method="GET")
        for path, text in texts.items()
    ]


def admission(mode: str, path: str, access: TokenAccess) -> Admit | None:
    """Who may ask at a path whose right is that of ``path``; None: everybody. ``mode``: off, open or authenticated."""
    if mode == "open":
        return None

    async def nobody(_credential: str) -> Answer | None:
        return json_answer(403, {"error": OFF})

    return by_token(access, path) if mode == "authenticated" else nobody
