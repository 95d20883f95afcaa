"""Who may ask: a Kubernetes token, and a role that allows the path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from shared.kube.token_access import TokenAccess
from shared.runtime.services import Answer, json_answer

PROFILE_PATH = "/debug/profile"


def by_token(access: TokenAccess, path: str) -> Callable[[str], Awaitable[Answer | None]]:
    """For ``Question.admit`` and ``Service.admit_profile``: whoever may use ``path`` with the verb of ``access``."""

    async def admit(credential: str) -> Answer | None:
        verdict = await access.judge(credential, path)
        if verdict.status == 200:
            return None
        return json_answer(verdict.status, {"error": verdict.reason})

    return admit
