"""The exception for a request that EC2 would refuse."""

from __future__ import annotations


class RequestRefused(Exception):
    """``code`` and ``message`` are EC2's own; the HTTP layer turns them into an error answer or an Errors entry."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
