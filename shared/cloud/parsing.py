"""Parse big AWS answers in a thread.

A page of 100 instance types is 400 KB of XML: 50-80 ms of work that would stop every other task of
the process. Answers above ``LARGE_BODY_BYTES`` are parsed by botocore's own synchronous parser in a
worker thread; small ones stay on the loop, where they are cheaper. The executor should have one
thread: each further parsing thread may hold the interpreter for 5 ms before the loop's turn.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from typing import Any

from aiobotocore.parsers import AioResponseParserFactory
from botocore.parsers import ResponseParserFactory

LARGE_BODY_BYTES = 32 * 1024


class ThreadedParser:
    """One response's parser: asynchronous for small bodies, synchronous for large ones."""

    def __init__(self, small: Any, large: Any, executor: Executor) -> None:
        self._small = small
        self._large = large
        self._executor = executor

    async def parse(self, response: dict[str, Any], shape: Any) -> Any:
        """The parsed answer. ``response`` has ``body`` (bytes), ``headers`` and ``status_code``."""
        body = response["body"]
        if isinstance(body, bytes) and len(body) > LARGE_BODY_BYTES:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._executor, self._large.parse, response, shape)
        return await self._small.parse(response, shape)


class ThreadedParserFactory:
    """Drop-in for the ``response_parser_factory`` component of an aiobotocore session."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._small = AioResponseParserFactory()
        self._large = ResponseParserFactory()

    def set_parser_defaults(self, **defaults: Any) -> None:
        """Called by botocore when a client is created."""
        self._small.set_parser_defaults(**defaults)
        self._large.set_parser_defaults(**defaults)

    def create_parser(self, protocol: str) -> ThreadedParser:
        """A parser for one answer; answers do not share state, so threads cannot clash."""
        return ThreadedParser(
            self._small.create_parser(protocol),
            self._large.create_parser(protocol),
            self._executor,
        )
