"""AWS on the loop: the emulator of ``local.aws``, its WSGI application called inline for every request."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Mapping
from contextvars import copy_context
from random import Random
from typing import Any
from urllib.parse import unquote

import orjson
from moto.moto_api._internal import mock_random

from local.aws.control.endpoint import PREFIX, Control
from local.aws.ec2.instances import Instance
from local.aws.emulator import Emulator
from local.aws.http.faults import DROPPED
from local.aws.http.wsgi import Answer, Application, Handled
from local.aws.moto import patches, speed
from local.aws.moto import state as moto_state
from local.aws.seeding import seed
from local.aws.settings import EmulatorSettings
from shared.concurrency.clock import Clock
from simulation.servers import moto_time
from simulation.servers.http import Connection, Connections, Request
from simulation.servers.queues import RECEIVE, LongPoll, Queues, without_wait
from simulation.servers.timers import LoopTimers
from simulation.settings import CLUSTER, REGION, RunSettings

PENDING_SECONDS = 2.0
SHUTTING_DOWN_SECONDS = 8.0
NO_INSTANCE = "no instance"
"""The control endpoint's error when it has no instance to act on."""
_OWN_HEADERS = frozenset({"content-length", "connection", "transfer-encoding", "server", "date"})

OnCall = Callable[[str, str | None, str], None]
OnState = Callable[[Instance, str], None]


class AwsServer:
    """One account. moto keeps its state in globals, so a process has one AwsServer at a time.

    ``on_call`` gets every finished call: action, AWS error code or None, and the program that called. ``on_change``
    gets an instance and the state that it entered.
    """

    def __init__(
        self,
        settings: RunSettings,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        random: Random,
        *,
        on_call: OnCall | None = None,
        on_change: OnState | None = None,
    ) -> None:
        self._loop, self._on_call = loop, on_call
        self._context = copy_context()
        self._on_states: list[OnState] = [] if on_change is None else [on_change]
        mock_random.seed(random.getrandbits(64))
        moto_state.reset()
        moto_time.install(clock)
        self.emulator = Emulator(
            _emulator_settings(settings),
            clock,
            seed,
            timers=lambda stepped: LoopTimers(stepped, loop),
            on_state=self._changed,
        )
        patches.install(self.emulator)
        speed.install(clock)
        self._application = Application(self.emulator)
        self._queues = Queues(REGION, clock, loop, random)
        self._queues.install()
        self._connections = Connections(self._handle, loop.time)
        self._control = Control(self.emulator)
        self.emulator.start()

    def connection(self) -> Connection:
        """The protocol of a new connection, for ``create_server``."""
        return self._connections.new()

    def watch_states(self, callback: OnState) -> None:
        """Call ``callback`` with every instance that changes, and the state that it enters."""
        self._on_states.append(callback)

    def _changed(self, instance: Instance, state: str) -> None:
        for callback in self._on_states:
            callback(instance, state)

    # Faults

    def control(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """An order to the emulator, as ``POST /_dovetail/PATH`` takes it.

        The answer has ``error`` when no instance matches. Raises ValueError for any other refusal.
        """
        status, text = self._control.answer("POST", PREFIX + path, {}, orjson.dumps(body))
        answer: dict[str, Any] = orjson.loads(text)
        if status != 200 and answer.get("error") != NO_INSTANCE:
            raise ValueError(f"{path} {dict(body)}: {answer}")
        return answer

    def mix_messages(self, copies: int, seconds: float) -> None:
        """For ``seconds`` SQS delivers each message ``copies`` times and out of order."""
        self._queues.mix(copies, seconds)

    def messages(self, queue: str) -> int:
        """How many messages a queue holds, those included that were received and are not deleted yet."""
        return self._queues.length(queue)

    def down(self, seconds: float) -> None:
        """For ``seconds`` every connection is reset."""
        self._connections.stop(seconds)

    # Requests

    def _handle(self, connection: Connection, request: Request) -> None:
        if request.headers.get("x-amz-target") == RECEIVE:
            self._receive(connection, request)
        else:
            self._finish(connection, request, self._carry_out(request, request.body))

    def _carry_out(self, request: Request, body: bytes) -> Handled:
        return self._application.handle(_environ(request, body))

    def _receive(self, connection: Connection, request: Request) -> None:
        body, name, seconds = without_wait(request.body)

        def attempt(last: bool) -> bool:
            handled = self._carry_out(request, body)
            is_empty = handled.code is None and b'"Messages"' not in handled.answer.body
            if is_empty and not last:
                return False
            self._finish(connection, request, handled)
            return True

        if not attempt(seconds <= 0):
            connection.work = LongPoll(self._queues, name, seconds, attempt)

    def _finish(self, connection: Connection, request: Request, handled: Handled) -> None:
        if handled.action and self._on_call is not None:
            self._on_call(handled.action, handled.code, request.program)
        if handled.delay_seconds <= 0:
            _send(connection, handled.answer)
            return
        connection.work = self._loop.call_later(
            handled.delay_seconds, _send, connection, handled.answer, context=self._context
        )


def _send(connection: Connection, answer: Answer) -> None:
    if answer.status == DROPPED:
        connection.abort()
        return
    headers = [(name, value) for name, value in answer.headers if name.lower() not in _OWN_HEADERS]
    connection.answer(answer.status, headers, answer.body)


def _environ(request: Request, body: bytes) -> dict[str, Any]:
    path, _, query = request.target.partition("?")
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote(path),
        "RAW_URI": request.target,
        "QUERY_STRING": query,
        "SERVER_NAME": "aws",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "10.2.0.1",
        "CONTENT_TYPE": request.headers.get("content-type", ""),
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": io.StringIO(),
        "wsgi.multithread": False,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in request.headers.items():
        if name not in ("content-type", "content-length"):
            environ["HTTP_" + name.upper().replace("-", "_")] = value
    return environ


def _emulator_settings(settings: RunSettings) -> EmulatorSettings:
    return EmulatorSettings(
        region=REGION,
        cluster_name=CLUSTER,
        instance_pending_seconds=PENDING_SECONDS,
        instance_shutting_down_seconds=SHUTTING_DOWN_SECONDS,
        interruption_notice_seconds=settings.interruption_notice_seconds,
    )
