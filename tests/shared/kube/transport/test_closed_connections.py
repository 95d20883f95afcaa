"""A kept connection that the server closes between two requests costs no request."""

from __future__ import annotations

from contextlib import aclosing

import aiohttp
import pytest

from shared.kube.client import Kube
from shared.kube.resources import PODS
from tests.support.cluster.scripted_api import ScriptedApi, event, page, pod, stream


class Closing:
    """Closes the kept connection after a request took it from the pool and before it writes.

    The server's end of a connection arrives at any moment; only a hook of aiohttp is sure to be between these two.
    """

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.times = 0
        self._connector = session.connector
        trace = aiohttp.TraceConfig()
        trace.on_connection_reuseconn.append(self._close)
        trace.freeze()
        session.trace_configs.append(trace)

    async def _close(self, *_details: object) -> None:
        self.times += 1
        for protocol in self._connector._acquired:  # type: ignore[union-attr]  # no public way to a connection
            if protocol.transport is not None:
                protocol.transport.close()


@pytest.fixture
async def closing(api: ScriptedApi, kube: Kube) -> Closing:
    """The client has one kept connection, which closes at its next use."""
    api.lists = [page([pod("a", 1)], 5)]
    await kube.list(PODS)
    return Closing(kube._connection._api.rest_client.pool_manager)


async def test_a_watch_is_opened_once_more(api: ScriptedApi, kube: Kube, closing: Closing) -> None:
    """An informer counts a watch that does not open as a failure."""
    api.watches = [stream(event("ADDED", pod("b", 6)))]
    async with aclosing(kube.watch(PODS, "5")) as events:
        assert (await anext(events)).object["metadata"]["name"] == "b"
    assert closing.times == 1
