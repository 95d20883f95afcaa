"""A reader signs in with a Kubernetes token that the API server authorizes, and a browser keeps it as a cookie."""

from __future__ import annotations

from pathlib import Path

from services.console.status.access import COOKIE, PATH
from tests.services.console.conftest import NOBODY, Start
from tests.shared.kube.test_token_access import ALLOWED, DENIED, KNOWN
from tests.support.cluster.fixture import connect, write_kubeconfig
from tests.support.cluster.scripted_api import scripted_api

AUTHENTICATED = {**NOBODY, "console_access": "authenticated"}


async def test_a_good_token_becomes_a_cookie_that_no_script_reads(
    start_console: Start, tmp_path: Path
) -> None:
    async with scripted_api() as api:
        kube = await connect(write_kubeconfig(tmp_path / "kubeconfig", api.url))
        async with start_console(**AUTHENTICATED, kube=kube) as console:
            api.others = [KNOWN, ALLOWED]
            async with console.client.post("/api/session", json={"token": "a-token"}) as response:
                assert response.status == 204
                cookie = response.cookies[COOKIE]
            assert (cookie["httponly"], cookie["samesite"]) == (True, "strict")
            status, _ = await console.get("/api/cluster", Cookie=f"{COOKIE}={cookie.value}")
            assert status == 200
            assert (await console.get("/api/cluster", Authorization="Bearer a-token"))[0] == 200
        await kube.close()
    review = api.requests[-1].body
    assert review["spec"]["nonResourceAttributes"] == {"path": PATH, "verb": "get"}


async def test_a_user_without_the_right_is_told_which_one(
    start_console: Start, tmp_path: Path
) -> None:
    async with scripted_api() as api:
        kube = await connect(write_kubeconfig(tmp_path / "kubeconfig", api.url))
        async with start_console(**AUTHENTICATED, kube=kube) as console:
            api.others = [KNOWN, DENIED]
            status, found = await console.get("/api/cluster", Authorization="Bearer a-token")
        await kube.close()
    assert status == 403
    assert "may not get /console; a ClusterRole with nonResourceURLs" in found["error"]
