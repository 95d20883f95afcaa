"""Each client says who calls, in words that are put together once."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.config import Config

from shared.cloud.client.session import Cloud
from shared.cloud.client.user_agent import SteadyUserAgent


def test_a_client_puts_its_words_together_once() -> None:
    of_session = SteadyUserAgent.from_environment()
    of_session.to_string()
    first, second = (
        of_session.with_client_config(Config(user_agent_extra=name)) for name in ("one", "two")
    )
    assert first.to_string().endswith("one")
    assert second.to_string().endswith("two")
    assert first.to_string() is first.to_string()


@pytest.mark.asyncio(loop_scope="module")
async def test_calls_name_dovetail_and_the_library(cloud: Cloud) -> None:
    sts, sent = await cloud._client("sts", "us-west-2", 10), []

    def note(request: Any, **_: object) -> None:
        sent.append(request.headers["User-Agent"])

    sts.meta.events.register("before-send", note)
    for _ in range(2):
        await sts.get_caller_identity()
    first, second = (one.decode() if isinstance(one, bytes) else one for one in sent)
    assert first == second
    assert "otocore/" in first
    assert first.endswith("dovetail-tests")
