"""Steps of a release, and checks and pages made from the code."""

import shared  # noqa: F401 - Ctrl-C ends in one line, also during the imports that follow
