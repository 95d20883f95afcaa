"""A ``FaultProxy`` in front of the API server of a stack, for its services alone: what the tests themselves ask goes
straight to it.

It runs in a thread of its own: a stack starts while the thread of the tests waits for it, and lives longer than the
event loop of one test.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from local.cluster.kubeconfig import write_kubeconfig
from local.stack import Stack
from local.stack_plan import HOST, choose_ports
from shared.kube.resources import Resource
from tests.support.network.fault_proxy import FaultProxy
from tests.support.stories.playground import short_settings, stack_of

ANSWER_SECONDS = 10.0
MOST_PORTS = 16
FIRST_PORTS = range(12_000, 19_000, MOST_PORTS)
"""Lower than the ports that other stacks choose from."""


class ApiProxy:
    """The faults between the services of a stack and its API server. Every method may be called from any thread."""

    def __init__(self, proxy: FaultProxy, loop: asyncio.AbstractEventLoop) -> None:
        self._proxy = proxy
        self._loop = loop

    @property
    def url(self) -> str:
        """The URL of the proxy, for the services."""
        return f"http://{HOST}:{self._proxy.port}"

    @property
    def half_open(self) -> int:
        """The number of connections that became half open."""
        return self._proxy.half_open

    def cut(self) -> None:
        """The API server stops answering, and every connection breaks."""
        self._do(self._proxy.go_away)

    def stall_watches_of(self, resource: Resource) -> None:
        """Watches of one kind stay open and send nothing; all other requests work."""

        def is_watch(target: str) -> bool:
            url = urlsplit(target)
            return url.path.endswith(f"/{resource.plural}") and "watch" in parse_qs(url.query)

        self._do(lambda: self._proxy.stall(is_watch))

    def heal(self) -> None:
        """The network works again. Half-open connections stay half open."""
        self._do(self._proxy.come_back)

    def _do(self, act: Callable[[], None]) -> None:
        async def run() -> None:
            act()

        asyncio.run_coroutine_threadsafe(run(), self._loop).result(ANSWER_SECONDS)


@contextmanager
def api_proxy(port: int) -> Iterator[ApiProxy]:
    """In front of the API server that will listen on ``port``: until it does, every connection is refused."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    proxy = FaultProxy(port)
    try:
        asyncio.run_coroutine_threadsafe(proxy.__aenter__(), loop).result(ANSWER_SECONDS)
        yield ApiProxy(proxy, loop)
    finally:
        closing = proxy.__aexit__(None, None, None)
        asyncio.run_coroutine_threadsafe(closing, loop).result(ANSWER_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(ANSWER_SECONDS)


@dataclass(frozen=True)
class ProxiedStack:
    """A stack, and the proxy between its services and its API server."""

    stack: Stack
    proxy: ApiProxy


@contextmanager
def proxied_stack(
    tmp_path_factory: pytest.TempPathFactory, **changes: Any
) -> Iterator[ProxiedStack]:
    """Started, and stopped at the end. ``changes``: other ``StackSettings``.

    Its cluster writes kubeconfigs that lead to the proxy; the administrator's, which tests use, is written again.
    """
    ports = neighbouring_ports()
    settings = replace(
        short_settings(tmp_path_factory.mktemp("stack")), port_base=ports[0], **changes
    )
    _, _, api_port, *_ = choose_ports(settings, Random())
    with api_proxy(api_port) as proxy, ExitStack() as held:
        stack = held.enter_context(stack_of(replace(settings, cluster_url=proxy.url)))
        write_kubeconfig(stack.directory / "kubeconfig", f"http://{HOST}:{api_port}")
        yield ProxiedStack(stack, proxy)


def neighbouring_ports() -> range:
    """As many in a row as a stack may want, and nobody listens on any. Workers of one run begin their search at
    different places: a stack takes its ports some time after they were found. Raises AssertionError.
    """
    begin = os.getpid() % len(FIRST_PORTS)
    for first in (*FIRST_PORTS[begin:], *FIRST_PORTS[:begin]):
        ports = range(first, first + MOST_PORTS)
        if all(map(is_free, ports)):
            return ports
    raise AssertionError(f"no {MOST_PORTS} free ports in a row from {FIRST_PORTS.start} on")


def is_free(port: int) -> bool:
    """Whether the port is free."""
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) != 0
