"""A ``FaultProxy`` in front of the API server of a stack, for its services alone: what the tests themselves ask goes
straight to it.

It runs in a thread of its own: a stack starts while the thread of the tests waits for it, and lives longer than the
event loop of one test.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from local.cluster.kubeconfig import write_kubeconfig
from local.stack import Stack, StackSettings
from shared.kube.resources import Resource
from tests.support.fault_proxy import FaultProxy
from tests.support.playground import short_settings, stack_of

ANSWER_SECONDS = 10.0


class ApiProxy:
    """The faults between the services of a stack and its API server. Every method may be called from any thread."""

    def __init__(self, proxy: FaultProxy, loop: asyncio.AbstractEventLoop) -> None:
        self._proxy = proxy
        self._loop = loop

    @property
    def half_open(self) -> int:
        """How many connections came to be half open."""
        return self._proxy.half_open

    def cut(self) -> None:
        """Nobody answers any more, and every connection breaks."""
        self._do(self._proxy.go_away)

    def stall_watches_of(self, resource: Resource) -> None:
        """Watches of one kind stay open and tell nothing; all else works."""

        def is_watch(target: str) -> bool:
            url = urlsplit(target)
            return url.path.endswith(f"/{resource.plural}") and "watch" in parse_qs(url.query)

        self._do(lambda: self._proxy.stall(is_watch))

    def heal(self) -> None:
        """The network works. What is half open stays so: nobody remembers those connections."""
        self._do(self._proxy.come_back)

    def _do(self, act: Callable[[], None]) -> None:
        async def run() -> None:
            act()

        asyncio.run_coroutine_threadsafe(run(), self._loop).result(ANSWER_SECONDS)


@contextmanager
def api_proxy(stack_kubeconfig: Path, kubeconfig: Path) -> Iterator[ApiProxy]:
    """Write a ``kubeconfig`` for services that leads through a proxy to whom ``stack_kubeconfig`` names. A stack writes
    the latter when its API server is there: before that every connection is refused.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    proxy = FaultProxy(lambda: server_port(stack_kubeconfig))
    try:
        asyncio.run_coroutine_threadsafe(proxy.__aenter__(), loop).result(ANSWER_SECONDS)
        write_kubeconfig(kubeconfig, f"http://127.0.0.1:{proxy.port}")
        yield ApiProxy(proxy, loop)
    finally:
        closing = proxy.__aexit__(None, None, None)
        asyncio.run_coroutine_threadsafe(closing, loop).result(ANSWER_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(ANSWER_SECONDS)


def server_port(kubeconfig: Path) -> int:
    """Raises OSError while there is no such file."""
    (cluster,) = yaml.safe_load(kubeconfig.read_text())["clusters"]
    port = urlsplit(cluster["cluster"]["server"]).port
    assert port is not None
    return port


@dataclass(frozen=True)
class ProxiedStack:
    """A stack, and the proxy between its services and its API server."""

    stack: Stack
    proxy: ApiProxy


@contextmanager
def proxied_stack(
    tmp_path_factory: pytest.TempPathFactory, **changes: Any
) -> Iterator[ProxiedStack]:
    """Started, and stopped at the end. ``changes``: other ``StackSettings``."""
    directory = tmp_path_factory.mktemp("stack")
    kubeconfig = tmp_path_factory.mktemp("services") / "kubeconfig"
    settings: StackSettings = replace(
        short_settings(directory, KUBECONFIG=str(kubeconfig)), **changes
    )
    with api_proxy(directory / "kubeconfig", kubeconfig) as proxy, stack_of(settings) as stack:
        yield ProxiedStack(stack, proxy)
