"""Requests that are made from a server's OpenAPI document: valid ones, and such as the document forbids."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import Any

import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import APIOperation, BaseSchema, Case, GenerationMode, Response
from schemathesis.core.result import Ok

SECONDS = 30.0
MadeRequest = Case[Any]
Operation = APIOperation[Any, Any, Any, Any]
Judge = Callable[[MadeRequest, Response], None]


def try_all(url: str, judge: Judge, *, examples: int, leave_out: Container[str] = ()) -> set[str]:
    """Send ``examples`` requests of each operation, and let ``judge`` look at each answer. ``leave_out``: paths.

    Returns the paths that were tried. Blocks: call it in a thread.
    """
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    schema.config.generation.update(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
    tried = set()
    for operation in _operations(schema):
        if operation.path in leave_out:
            continue
        tried.add(operation.path)
        _try_one(operation, judge, examples)
    return tried


def _operations(schema: BaseSchema) -> Iterator[Operation]:
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found.err()
        yield found.ok()


def _try_one(operation: Operation, judge: Judge, examples: int) -> None:
    strategy = operation.as_strategy()

    # Some documents allow a single request only: their operations have no parameters.
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=strategy)
    def send(case: MadeRequest) -> None:
        judge(case, case.call(timeout=SECONDS))

    send()
