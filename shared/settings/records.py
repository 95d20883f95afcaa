"""Settings of decision records."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings

from shared.settings.types import STORE_PATTERN, Duration


class RecordStoreSettings(BaseSettings):
    """Where the scheduler's decisions are recorded."""

    record_store: str = Field(
        "",
        pattern=STORE_PATTERN,
        description="Where decisions are recorded: a directory, or s3://BUCKET/PREFIX; empty: they are not.",
    )
    record_endpoint_url: str = Field(
        "",
        pattern="^(https?://[^ ]+)?$",
        description="URL of another S3-compatible storage; empty: that of AWS.",
    )


class RecordSettings(RecordStoreSettings):
    """Who may question the scheduler's decisions, and how long they are kept."""

    questions: Literal["off", "open", "authenticated"] = Field(
        "off",
        description="Access to POST /simulate and /explain: disabled, open to every client of the port, or limited to "
        "clients whose token the API server authorizes.",
    )
    record_max_age: Duration = Field(
        7 * 24 * 3600.0, ge=3600, description="How long records are kept."
    )
    record_max_megabytes: int = Field(
        1024, ge=16, description="How much all records may have; the oldest are deleted first."
    )
    shadow: bool = Field(
        False,
        description="Decide and record, but act on nothing: for a second scheduler beside the one that acts.",
    )
