"""A local stack as its user sees it: start, look, stop.

``Stack.start`` launches ``local.supervisor`` as a process and waits until it reports ready;
``stop`` ends it. Only the supervisor touches the parts. Attached (``detach=False``) the
supervisor dies with the caller; detached it lives on until ``stop``, which may come from another
process.

What may go wrong: a part fails to start (StackFailed, with the end of its log and the fix); the
directory is in use by another stack, or holds somebody else's files (ConfigurationError); the
supervisor was killed (``stop`` then ends what the state file names).
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from local.extra import require_extra
from local.process import last_lines, spawn, terminate
from local.redis_server import find_redis_server
from local.stack_plan import (
    ACCOUNTS,
    JOINED,
    PROJECT,
    Joined,
    StackSettings,
    clean_environment,
    stack_id,
)
from local.stack_state import FAILED, READY, StackState, read_state
from local.supervisor import STOP_GRACE_SECONDS, StackFailed
from shared.errors import ConfigurationError, DovetailError

__all__ = ["DEFAULT_DIRECTORY", "Joined", "Stack", "StackFailed", "StackSettings"]

DEFAULT_DIRECTORY = Path(".dovetail")
START_SECONDS = 300.0
"""No start takes longer: the sum of what the waves may take."""
_POLL_SECONDS = 0.05
_MARK = "stack.json"
"""Written first and never taken away: what else is there is a stack's, and may be replaced."""
_WRITTEN = (ACCOUNTS, "aws.url", "env", "kubeconfig", "lock", "logs", "redis", "state.json")


class Stack:
    """One local stack, named by its directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()
        self._supervisor: subprocess.Popen[bytes] | None = None

    @property
    def state_file(self) -> Path:
        return self.directory / "state.json"

    @property
    def environment_file(self) -> Path:
        return self.directory / "env"

    def log_file(self, part: str) -> Path:
        """Where the output of one part goes."""
        return self.directory / "logs" / f"{part}.log"

    def command(self, words: str) -> str:
        """A ``dovetail`` command for this very stack, to be copied: ``command("down")``."""
        if self.directory == DEFAULT_DIRECTORY.resolve():
            return f"dovetail {words}"
        return f"dovetail {words} --directory {shlex.quote(str(self.directory))}"

    def state(self) -> StackState | None:
        """What the supervisor wrote last; None when no stack was started here."""
        return read_state(self.state_file)

    def running(self) -> StackState:
        """The state of a stack that runs. Raises ConfigurationError when none does."""
        state = self.state()
        if state is None or not state.supervisor.alive():
            raise ConfigurationError(
                f"no stack runs in {self.directory}; start one with `{self.command('up --detach')}`"
            )
        return state

    def start(
        self,
        settings: StackSettings,
        *,
        detach: bool,
        progress: Callable[[str], None] = lambda _message: None,
    ) -> StackState:
        """Start everything and return when it is ready. ``progress`` hears what is waited for.

        Raises ConfigurationError when a stack runs here already, the directory is no stack's or the machine has no
        Redis or not the extra `local`, StackFailed when a part does not start.
        """
        require_extra()  # both at once, not from a supervisor's log
        find_redis_server()
        self._refuse_second()
        self._prepare(settings)
        try:
            if settings.cluster is not None:
                self._join(settings, settings.cluster, progress)
            self._supervisor = spawn(
                [sys.executable, "-m", "local.supervisor", str(self.directory)],
                environment=clean_environment(os.environ),
                log=self.log_file("supervisor"),
                directory=PROJECT,
                die_with_parent=not detach,
            )
            return self._await_ready(progress)
        except BaseException:  # also on Ctrl-C: a half-started stack must not stay
            self.stop()
            raise

    def wait(self) -> None:
        """Return when the supervisor that this object started has ended."""
        if self._supervisor is not None:
            self._supervisor.wait()

    def stop(self, progress: Callable[[str], None] = lambda _message: None) -> list[str]:
        """Stop everything; the names of the parts that ran. Nothing happens when nothing runs.

        What the stack made on a cluster of others is taken away. ``progress`` hears what could not be.
        """
        state = self.state()
        if state is not None:
            reap = self._supervisor.poll if self._supervisor is not None else _nothing
            # The supervisor needs its grace for three waves; normally all end within a second.
            terminate([state.supervisor], grace_seconds=3 * STOP_GRACE_SECONDS, reap=reap)
            terminate(state.identities(), grace_seconds=STOP_GRACE_SECONDS, reap=reap)
        elif self._supervisor is not None:
            self._supervisor.terminate()
        self.wait()
        self._leave(progress)
        for path in (self.state_file, self.environment_file):
            path.unlink(missing_ok=True)
        return [] if state is None else [part.name for part in state.parts]

    def _refuse_second(self) -> None:
        state = self.state()
        if state is not None and state.supervisor.alive():
            raise ConfigurationError(
                f"a stack runs in {self.directory} already (pid {state.supervisor.pid}); "
                f"stop it with `{self.command('down')}` or pass another --directory"
            )
        if state is not None:
            self.stop()  # what a killed supervisor may have left

    def _join(
        self, settings: StackSettings, cluster: Joined, progress: Callable[[str], None]
    ) -> None:
        """Put Dovetail on a cluster of others, and note that, for the supervisor and for ``_leave``."""
        from local.foreign.preparation import prepare

        source = Path(cluster.kubeconfig)
        coroutine = prepare(
            source, self.directory, accept_any=cluster.accept_any, progress=progress
        )
        found = replace(cluster, host=asyncio.run(coroutine).host)
        self._write_settings(replace(settings, cluster=found))

    def _leave(self, progress: Callable[[str], None]) -> None:
        """``JOINED`` is there from before the first object until the last is gone."""
        kubeconfig = self.directory / JOINED
        if not kubeconfig.exists():
            return
        from local.foreign.removal import remove

        try:
            asyncio.run(remove(kubeconfig, stack_id(self.directory)))
        except DovetailError as error:
            progress(
                f"what the stack made on the cluster stays there: {error.message}\n"
                "When it runs, take that away with `dovetail down --kubeconfig FILE`"
            )
        kubeconfig.unlink()
        (self.directory / "kubeconfig").unlink(missing_ok=True)
        shutil.rmtree(self.directory / ACCOUNTS, ignore_errors=True)

    def _write_settings(self, settings: StackSettings) -> None:
        (self.directory / _MARK).write_text(json.dumps(settings.to_json(), indent=1))

    def _prepare(self, settings: StackSettings) -> None:
        mark = self.directory / _MARK
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            foreign = [name for name in _WRITTEN if (self.directory / name).exists()]
            if foreign and not mark.exists():
                raise ConfigurationError(
                    f"{self.directory} has {', '.join(foreign)}, and no stack made that; pass a new --directory"
                )
            self._write_settings(settings)
            (self.directory / "logs").mkdir(exist_ok=True)
            for log in (self.directory / "logs").glob("*.log"):
                log.unlink()
            for name in ("kubeconfig", "kubelets.ready"):
                (self.directory / name).unlink(missing_ok=True)
            shutil.rmtree(self.directory / ACCOUNTS, ignore_errors=True)
        except OSError as error:
            raise ConfigurationError(
                f"cannot write to {self.directory}: {error.strerror}; pass another --directory"
            ) from error

    def _await_ready(self, progress: Callable[[str], None]) -> StackState:
        deadline = time.monotonic() + START_SECONDS
        heard = ""
        while time.monotonic() < deadline:
            state = self.state()
            if state is not None and state.phase == READY:
                return state
            if state is not None and state.phase == FAILED:
                raise StackFailed(state.message)
            if self._supervisor is not None and self._supervisor.poll() is not None:
                raise StackFailed(self._last_words())
            if state is not None and state.message != heard:
                heard = state.message
                progress(heard)
            time.sleep(_POLL_SECONDS)
        raise StackFailed(f"the stack is not ready after {START_SECONDS:.0f} s: {heard}")

    def _last_words(self) -> str:
        state = self.state()
        if state is not None and state.phase == FAILED:
            return state.message
        return "\n".join(last_lines(self.log_file("supervisor"), 8)) or "the supervisor was killed"


def _nothing() -> None:
    return None
