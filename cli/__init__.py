"""The command ``dovetail``."""

import shared  # noqa: F401 - Ctrl-C ends in one line, also during the imports that follow
