"""A local stack as its user sees it: start, inspect, stop.

``Stack.start`` launches ``local.supervisor`` as a process and waits until it reports ready; ``stop`` ends it. Only the
supervisor controls the parts. With ``detach=False`` the supervisor ends with the caller; detached it runs until
``stop``, which another process may call.

Failures: a part fails to start (StackFailed, with the end of its log and the fix); another stack uses the directory, or
the directory has files that no stack wrote (ConfigurationError); the supervisor was killed (``stop`` then ends the
processes that the state file names).
"""

from __future__ import annotations

import asyncio
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
    EXISTING_CLUSTER_FILE,
    PROJECT,
    ExistingCluster,
    StackSettings,
    clean_environment,
    stack_id,
)
from local.stack_state import FAILED, READY, StackState, read_state
from local.supervisor import STOP_GRACE_SECONDS, StackFailed
from shared.errors import ConfigurationError, DovetailError

__all__ = ["DEFAULT_DIRECTORY", "ExistingCluster", "Stack", "StackFailed", "StackSettings"]

DEFAULT_DIRECTORY = Path(".dovetail")
START_SECONDS = 300.0
"""Upper bound of every start: the sum of the bounds of all waves."""
_POLL_SECONDS = 0.05
_MARKER_FILE = "stack.json"
"""Written first and never removed. It marks the other files of the directory as a stack's, which may be replaced."""
_WRITTEN = (ACCOUNTS, "aws.url", "env", "kubeconfig", "lock", "logs", "redis", "state.json")


class Stack:
    """One local stack, named by its directory."""

    def __init__(self, directory: Path) -> None:
        # Path.resolve raises RuntimeError for a loop of links; like this, reading says what is wrong.
        self.directory = Path(os.path.realpath(directory))
        self._supervisor: subprocess.Popen[bytes] | None = None

    @property
    def state_file(self) -> Path:
        return self.directory / "state.json"

    @property
    def environment_file(self) -> Path:
        return self.directory / "env"

    def log_file(self, part: str) -> Path:
        """The log file of one part."""
        return self.directory / "logs" / f"{part}.log"

    def command(self, words: str) -> str:
        """A ``dovetail`` command for this stack that the user can copy: ``command("down")``."""
        if self.directory == DEFAULT_DIRECTORY.resolve():
            return f"dovetail {words}"
        return f"dovetail {words} --directory {shlex.quote(str(self.directory))}"

    def state(self) -> StackState | None:
        """The state that the supervisor wrote last; None when no stack was started in this directory."""
        return read_state(self.state_file)

    def running(self) -> StackState:
        """The state of the running stack. Raises ConfigurationError when none runs."""
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
        """Start all parts and return when the stack is ready. ``progress`` receives a text for each wait.

        Raises ConfigurationError when a stack already runs here, the directory belongs to no stack, or the machine
        lacks Redis or the extra `local`; StackFailed when a part does not start.
        """
        require_extra()  # Checked here, so that the user sees both errors at once and not in the supervisor's log.
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
        except BaseException:  # Also on Ctrl-C: a partly started stack must not keep running.
            self.stop()
            raise

    def wait(self) -> None:
        """Return when the supervisor that this object started has ended."""
        if self._supervisor is not None:
            self._supervisor.wait()

    def stop(self, progress: Callable[[str], None] = lambda _message: None) -> list[str]:
        """Stop all parts and return the names of those that ran. Does nothing when nothing runs.

        Objects that the stack created on an existing cluster are removed; ``progress`` receives a text when that fails.
        """
        state = self.state()
        if state is not None:
            reap = self._supervisor.poll if self._supervisor is not None else _do_nothing
            # The supervisor may need its grace period once for each of three waves; normally all end within a second.
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
                f"a stack already runs in {self.directory} (pid {state.supervisor.pid}); "
                f"stop it with `{self.command('down')}` or pass another --directory"
            )
        if state is not None:
            self.stop()  # Objects that a killed supervisor left behind.

    def _join(
        self, settings: StackSettings, cluster: ExistingCluster, progress: Callable[[str], None]
    ) -> None:
        """Prepare an existing cluster for Dovetail, and record the cluster for the supervisor and for ``_leave``."""
        from local.foreign.preparation import prepare

        source = Path(cluster.kubeconfig)
        coroutine = prepare(
            source, self.directory, accept_any=cluster.accept_any, progress=progress
        )
        found = replace(cluster, host=asyncio.run(coroutine).host)
        self._write_settings(replace(settings, cluster=found))

    def _leave(self, progress: Callable[[str], None]) -> None:
        """Remove the stack's objects. ``EXISTING_CLUSTER_FILE`` is written before the first object is created and
        deleted after the last one is removed, so a killed stack can still be cleaned up.
        """
        kubeconfig = self.directory / EXISTING_CLUSTER_FILE
        if not kubeconfig.exists():
            return
        from local.foreign.removal import remove

        try:
            asyncio.run(remove(kubeconfig, stack_id(self.directory)))
        except DovetailError as error:
            progress(
                f"the objects of the stack were not removed from the cluster: {error.message}\n"
                "When the cluster runs again, remove them with `dovetail down --kubeconfig FILE`"
            )
        kubeconfig.unlink()
        (self.directory / "kubeconfig").unlink(missing_ok=True)
        shutil.rmtree(self.directory / ACCOUNTS, ignore_errors=True)

    def _write_settings(self, settings: StackSettings) -> None:
        (self.directory / _MARKER_FILE).write_bytes(settings.to_json())

    def _prepare(self, settings: StackSettings) -> None:
        marker = self.directory / _MARKER_FILE
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            foreign = [name for name in _WRITTEN if (self.directory / name).exists()]
            if foreign and not marker.exists():
                raise ConfigurationError(
                    f"{self.directory} has files that no stack wrote ({', '.join(foreign)}); pass a new --directory"
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
        shown = ""
        while time.monotonic() < deadline:
            state = self.state()
            if state is not None and state.phase == READY:
                return state
            if state is not None and state.phase == FAILED:
                raise StackFailed(state.message)
            if self._supervisor is not None and self._supervisor.poll() is not None:
                raise StackFailed(self._start_error())
            if state is not None and state.message != shown:
                shown = state.message
                progress(shown)
            time.sleep(_POLL_SECONDS)
        raise StackFailed(f"the stack is not ready after {START_SECONDS:.0f} s: {shown}")

    def _start_error(self) -> str:
        state = self.state()
        if state is not None and state.phase == FAILED:
            return state.message
        return "\n".join(last_lines(self.log_file("supervisor"), 8)) or "the supervisor was killed"


def _do_nothing() -> None:
    return None
