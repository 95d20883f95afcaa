"""Who may ask: the API server's word on the caller's token, kept for some seconds."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.datastructures import Headers

from shared.kube.client import Kube
from shared.kube.token_access import (
    CACHED_VERDICTS_LIMIT,
    CONCURRENT_REVIEWS_LIMIT,
    VERDICT_CACHE_SECONDS,
    TokenAccess,
    credential_of,
)
from tests.support.clock.fake import FakeClock
from tests.support.cluster.scripted_api import ScriptedApi, Step, answer, refusal

USER = {
    "username": "system:serviceaccount:ops:ann",
    "uid": "7",
    "groups": ["system:authenticated"],
    "extra": {"authentication.kubernetes.io/pod-name": ["shell"]},
}
TOKEN = "Bearer a-token"


def reviewed(status: dict[str, Any], kind: str) -> Step:
    """As an API server answers: the object that came, with a status; nothing is stored, so it has no name."""
    group = "authentication" if kind == "TokenReview" else "authorization"
    head = {"kind": kind, "apiVersion": f"{group}.k8s.io/v1", "metadata": {}, "spec": {}}
    return answer({**head, "status": status}, 201)


KNOWN = reviewed({"authenticated": True, "user": USER, "audiences": ["api"]}, "TokenReview")
UNKNOWN = reviewed({"user": {}, "error": "token lookup failed"}, "TokenReview")
ALLOWED = reviewed({"allowed": True, "reason": "RBAC: allowed"}, "SubjectAccessReview")
DENIED = reviewed({"allowed": False}, "SubjectAccessReview")


@pytest.fixture
def access(kube: Kube, clock: FakeClock) -> TokenAccess:
    return TokenAccess(kube, clock)


async def test_who_may_post_the_path_is_let_in(api: ScriptedApi, access: TokenAccess) -> None:
    api.others = [KNOWN, ALLOWED]
    assert (await access.judge(TOKEN, "/simulate")).status == 200
    token_review, access_review = api.requests
    assert token_review.path == "/apis/authentication.k8s.io/v1/tokenreviews"
    assert token_review.body["spec"] == {"token": "a-token"}
    assert access_review.path == "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert access_review.body["spec"] == {
        "user": USER["username"],
        "uid": "7",
        "groups": USER["groups"],
        "extra": USER["extra"],
        "nonResourceAttributes": {"path": "/simulate", "verb": "post"},
    }


@pytest.mark.parametrize(
    ("answers", "status", "told"),
    [
        ([UNKNOWN], 401, "does not accept this token"),
        ([KNOWN, DENIED], 403, "system:serviceaccount:ops:ann may not post /simulate"),
        ([refusal(403, "Forbidden")], 503, "cannot review the token"),
        ([KNOWN, refusal(500, "InternalError")], 503, "cannot review the token"),
    ],
)
async def test_who_may_not_is_told_why(
    api: ScriptedApi, access: TokenAccess, answers: list[Step], status: int, told: str
) -> None:
    api.others = answers
    found = await access.judge(TOKEN, "/simulate")
    assert (found.status, told in found.reason) == (status, True)
    assert "a-token" not in found.reason


@pytest.mark.parametrize(
    "sent", ["", "Bearer ", "Basic YTpi", "a-token", "Bearer " + "x" * 20_000, "Bearer \xe9"]
)
async def test_without_a_token_the_api_server_is_not_asked(
    api: ScriptedApi, access: TokenAccess, sent: str
) -> None:
    assert (await access.judge(sent, "/simulate")).status == 401
    assert api.requests == []


async def test_a_verdict_is_kept_for_some_seconds_and_for_its_path(
    api: ScriptedApi, access: TokenAccess, clock: FakeClock
) -> None:
    api.others = [KNOWN, ALLOWED, KNOWN, DENIED, KNOWN, DENIED]
    assert [(await access.judge(TOKEN, "/simulate")).status for _ in range(3)] == [200] * 3
    assert len(api.requests) == 2
    assert (await access.judge(TOKEN, "/explain")).status == 403
    assert len(api.requests) == 4
    clock.advance(VERDICT_CACHE_SECONDS)
    assert (await access.judge(TOKEN, "/simulate")).status == 403


async def test_what_the_api_server_could_not_say_is_asked_again(
    api: ScriptedApi, access: TokenAccess
) -> None:
    api.others = [refusal(403, "Forbidden"), KNOWN, ALLOWED]
    assert (await access.judge(TOKEN, "/simulate")).status == 503
    assert (await access.judge(TOKEN, "/simulate")).status == 200


async def test_few_verdicts_are_kept_and_few_are_asked_for_at_once(
    api: ScriptedApi, access: TokenAccess
) -> None:
    """A stream of made-up tokens costs neither memory nor the API server's time."""
    api.others = [UNKNOWN]
    many = CONCURRENT_REVIEWS_LIMIT + 3
    found = await asyncio.gather(*(access.judge(f"Bearer {n}", "/explain") for n in range(many)))
    assert sorted(one.status for one in found) == [401] * CONCURRENT_REVIEWS_LIMIT + [429] * 3
    for number in range(CACHED_VERDICTS_LIMIT + 10):
        await access.judge(f"Bearer more-{number}", "/explain")
    assert len(access._kept) == CACHED_VERDICTS_LIMIT


MEANT = reviewed({"authenticated": True, "user": USER, "audiences": ["dovetail"]}, "TokenReview")


async def test_a_token_of_the_own_header_is_reviewed_for_dovetails_audience(
    api: ScriptedApi, access: TokenAccess
) -> None:
    api.others = [MEANT, ALLOWED]
    credential = credential_of(
        Headers({"x-dovetail-token": "a-token", "authorization": "Bearer b"})
    )
    assert (await access.judge(credential, "/simulate")).status == 200
    spec = {"token": "a-token", "audiences": ["dovetail"]}
    assert api.requests[0].body["spec"] == spec


async def test_a_server_that_knows_no_audiences_lets_nobody_in(
    api: ScriptedApi, access: TokenAccess
) -> None:
    """Otherwise a token for the API server would do, and a service would hold one."""
    api.others = [reviewed({"authenticated": True, "user": USER}, "TokenReview"), ALLOWED]
    found = await access.judge("Dovetail a-token", "/simulate")
    assert (found.status, "not meant for the audience dovetail" in found.reason) == (401, True)


async def test_the_verdict_on_one_header_says_nothing_of_the_other(
    api: ScriptedApi, access: TokenAccess
) -> None:
    api.others = [MEANT, ALLOWED, UNKNOWN]
    assert (await access.judge("Dovetail a-token", "/simulate")).status == 200
    assert (await access.judge(TOKEN, "/simulate")).status == 401


def test_without_the_own_header_the_usual_one_counts() -> None:
    assert credential_of(Headers({"authorization": TOKEN})) == TOKEN
    assert credential_of(Headers({})) == ""
