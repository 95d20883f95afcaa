"""Parse big AWS answers in a thread.

A page of 100 instance types is 400 KB of XML: 50-80 ms of work that would stop every other task of
the process. Answers above ``LARGE_BODY_BYTES`` are parsed in a worker thread; small ones stay on the
loop, where they are cheaper. The executor should have one thread: each further parsing thread may
hold the interpreter for 5 ms before the loop's turn.
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

        Raises ResponseParserError for what is no whole answer of AWS.
        """
        body = response["body"]
        if isinstance(body, bytes) and len(body) > LARGE_BODY_BYTES:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._executor, self._parser.parse, response, shape)
        return self._parser.parse(response, shape)


class ThreadedParserFactory:
    """Drop-in for the ``response_parser_factory`` component of an aiobotocore session."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._defaults: dict[str, Any] = {}

    def set_parser_defaults(self, **defaults: Any) -> None:
        """Called by botocore when a client is created."""
        self._defaults.update(defaults)

    def create_parser(self, protocol: str) -> ThreadedParser:
        """A parser for one answer; answers do not share state, so threads cannot clash."""
        return ThreadedParser(STRICT_PARSERS[protocol](**self._defaults), self._executor)
