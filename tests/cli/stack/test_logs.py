"""``dovetail logs --follow``: a new stack in the directory begins its logs anew."""

from __future__ import annotations

import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

FOLLOW = "from pathlib import Path; from cli.stack.logs import logs; logs('watcher', True, 1, Path({!r}))"


def test_a_log_that_begins_anew_is_followed_and_ctrl_c_is_the_usual_end(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs" / "watcher.log"
    log.write_text("old\na long line of the stack before\n")
    words = [sys.executable, "-c", FOLLOW.format(str(tmp_path))]
    # A background job of a shell ignores Ctrl-C, and its children would too.
    heeding = partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdout=pipe, text=True, preexec_fn=heeding) as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "a long line of the stack before\n"
        log.write_text("new\n")
        assert following.stdout.readline() == "new\n"
        following.send_signal(signal.SIGINT)
        assert following.wait(60) == 0
