"""``python -m simulation``: run seeds, and report those that break an invariant."""

from __future__ import annotations

import sys

from shared.log import configure
from simulation.runner.options import parse

if __name__ == "__main__":
    options = parse(sys.argv[1:])  # Before the import below, which takes seconds.
    configure("critical")
    from simulation.runner.main import run

    sys.exit(run(options))
