"""Benchmarks: ``python -m bench.NAME --help``."""

import shared  # noqa: F401 - Ctrl-C ends in one line, also during the imports that follow
