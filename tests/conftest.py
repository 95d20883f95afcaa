"""What all tests share: one AWS emulator per process, and how many examples a property gets: few for every change, many
at night (``HYPOTHESIS_PROFILE=nightly``).

For a change the examples are the same ones on every run and on every machine, so that a change fails for what it did;
the nightly run looks for new ones. How long an example takes to make says nothing: a machine may be busy.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import shared.log  # noqa: F401  first: where rich is imported before it, each logged exception takes seconds
from tests.support.aws.emulator import aws_emulator_url
from tests.support.redis.fixture import BINARIES

__all__ = ["aws_emulator_url"]

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("change", PATIENT, max_examples=25, derandomize=True)
settings.register_profile("nightly", PATIENT, max_examples=1000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "change"))


def _every_line() -> None:
    """Tests also look for lines below errors, which a process does not write that configures nothing."""
    import structlog  # after shared.log, which keeps rich out

    structlog.reset_defaults()


_every_line()

# Reading the machine's authorities costs every client 50 ms of CPU; tests talk to loopback and bring their own.
# botocore reads its own 130 unless a bundle is named, and one without any is an error.
AUTHORITY = Path(__file__).parent / "support" / "authority.pem"
os.environ |= {
    "SSL_CERT_FILE": os.devnull,
    "SSL_CERT_DIR": os.devnull,
    "AWS_CA_BUNDLE": str(AUTHORITY),
}

ABOUT_REDIS = Path(__file__).parent / "shared" / "redis"
OLDEST = min(BINARIES, default=None)

# Thousands of test items and modules live to the end: to visit them again and again took a fifth of the run.
gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """What collection made is never garbage; what tests leave is collected, if not as often as usual."""
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is not about Redis itself needs one version of it for a change, the oldest; the others follow at night.

    Long tests come first: one that starts last leaves every other process without work.
    """
    for item in items:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        version = parameters.get("redis_server", OLDEST)
        if version != OLDEST and not item.path.is_relative_to(ABOUT_REDIS):
            item.add_marker("nightly")
    items.sort(key=lambda item: item.get_closest_marker("started_first") is None)
