"""How many examples a property gets: few for every change, many at night (``HYPOTHESIS_PROFILE=nightly``)."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("change", max_examples=25, deadline=None)
settings.register_profile("nightly", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "change"))
