"""Settings of approvals."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings

from shared.settings.types import Duration, SecretKey


class ApprovalSettings(BaseSettings):
    """How long commands wait for an answer, and the webhook that gets them."""

    approval_expiry: Duration = Field(
        3600.0,
        gt=0,
        description="How long a disruption command of a pool with dovetail.sh/approval waits for its answer.",
    )
    approval_webhook: str = Field(
        "",
        repr=False,
        description="URL that gets each command that begins to wait for approval, with signed links that answer it; "
        "needs APPROVAL_URL and APPROVAL_KEY.",
    )
    approval_url: str = Field(
        "",
        pattern="^(https?://[^ ?#]+)?$",
        description="Address at which people reach the scheduler's status port; signed links begin with it.",
    )
    approval_key: SecretKey = Field(
        "",
        repr=False,
        description="Secret of at least 16 characters that signs the links; another one makes all links invalid.",
    )
