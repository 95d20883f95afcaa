"""How the programs of this project end on Ctrl-C: one line on stderr and status 130, no traceback.

The handler is the interpreter's hook for exceptions that nobody caught. So it also covers the seconds of imports before
a program's first own line, and what a program does after its last one.
"""

from __future__ import annotations

import sys
from types import TracebackType

INTERRUPTED = 130
"""Exit status of a program that Ctrl-C ended, as shells count it: 128 and the number of SIGINT."""
LINE = "interrupted"


def interrupts_in_one_line() -> None:
    """From now on an uncaught KeyboardInterrupt ends this process with ``LINE`` and ``INTERRUPTED``."""
    sys.excepthook = _end


def _end(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, traceback)
        return
    sys.stderr.write(f"{LINE}\n")
    # A status of its own: without it the interpreter ends itself by the signal, which callers see as -2.
    raise SystemExit(INTERRUPTED)
