"""The user agent of AWS calls, worked out once for each client.

botocore puts it together twice for each call, from some thirty parts: that takes a sixth of a call to SQS. What may
differ between calls of one client are marks of the library's features in use; AWS gets those of the first call.
"""

from __future__ import annotations

from typing import Any

from botocore.useragent import UserAgentString


class SteadyUserAgent(UserAgentString):  # type: ignore[misc]
    """Says the same for all calls of a client."""

    _text = ""

    def with_client_config(self, client_config: Any) -> SteadyUserAgent:
        """The user agent of one client. ``client_config``: what the client is made with."""
        own: SteadyUserAgent = super().with_client_config(client_config)
        own._text = ""
        return own

    def to_string(self) -> str:
        """The header's value."""
        if not self._text:
            self._text = super().to_string()
        return self._text
