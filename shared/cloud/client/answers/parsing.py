"""Parses large AWS answers in a thread.

A page of 100 instance types is 400 KB of XML: parsing it takes 50-80 ms, which would block every other
task of the process. Answers above ``LARGE_BODY_BYTES`` are parsed in a worker thread; small ones are
cheaper on the event loop. The executor should have one thread: each further parsing thread may hold
the interpreter lock for 5 ms before the event loop runs again.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from typing import Any

from shared.cloud.client.answers.strict import STRICT_PARSERS

LARGE_BODY_BYTES = 32 * 1024


class ThreadedParser:
    """One response's parser: on the loop for small bodies, in a thread for large ones."""

    def __init__(self, parser: Any, executor: Executor) -> None:
        self._parser = parser
        self._executor = executor

    async def parse(self, response: dict[str, Any], shape: Any) -> Any:
        """The parsed answer. ``response`` has ``body`` (bytes), ``headers``, ``status_code`` and ``context``.

        Raises ResponseParserError for anything but a complete answer of AWS.
        """
        body = response["body"]
        if isinstance(body, bytes) and len(body) > LARGE_BODY_BYTES:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._executor, self._parser.parse, response, shape)
        return self._parser.parse(response, shape)


class ThreadedParserFactory:
    """A replacement for the ``response_parser_factory`` component of an aiobotocore session."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._defaults: dict[str, Any] = {}

    def set_parser_defaults(self, **defaults: Any) -> None:
        """Called by botocore when a client is created."""
        self._defaults.update(defaults)

    def create_parser(self, protocol: str) -> ThreadedParser:
        """A parser for one answer; parsers share no state, so threads cannot interfere."""
        return ThreadedParser(STRICT_PARSERS[protocol](**self._defaults), self._executor)
