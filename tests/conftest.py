"""What all tests share: one AWS emulator per process, and how many examples a property gets: few for every change, many
at night (``HYPOTHESIS_PROFILE=nightly``).
"""

from __future__ import annotations

import os

from hypothesis import settings

from tests.support.aws_emulator import aws_emulator_url

__all__ = ["aws_emulator_url"]

settings.register_profile("change", max_examples=25, deadline=None)
settings.register_profile("nightly", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "change"))

# Reading the machine's authorities costs every client 50 ms of CPU; tests talk to loopback and bring their own.
os.environ |= {"SSL_CERT_FILE": os.devnull, "SSL_CERT_DIR": os.devnull}
