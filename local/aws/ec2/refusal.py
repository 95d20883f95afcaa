"""The one exception that decisions raise when EC2 would refuse a request."""

from __future__ import annotations


class RequestRefused(Exception):
    """``code`` and ``message`` are EC2's own words; the edge turns them into an error answer or an
    Errors entry.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
