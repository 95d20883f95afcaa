"""The ``dovetail`` command: the list of its commands. Each command has a module of its own.

A command's module is imported when the command is called: ``validate`` on a file does not wait for the client libraries
of Kubernetes and AWS. A DovetailError or an OSError (a full disk) ends with its message on stderr and exit code 1. Any
other exception is a defect and shows its traceback.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from types import FrameType
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from local.extra import MODULES, missing_extra
from shared.errors import DovetailError
from shared.runtime.ending import INTERRUPTED, LINE
from shared.runtime.ram import COMMANDS_COLLECT_EVERY

MISUSE = 2


class Command(NamedTuple):
    """Module and summary of a command. The summary is here so that the list of commands imports no module."""

    module: str
    summary: str
    misuse: int = MISUSE
    """Exit code of a wrong option."""


COMMANDS = {
    "demo": Command(
        "cli.demo.command", "Run a scenario live, on a cluster and a cloud of its own."
    ),
    "up": Command("cli.stack.up", "Start the local stack: Redis, AWS emulator, cluster, services."),
    "down": Command("cli.stack.down", "Stop everything that `dovetail up` started."),
    "status": Command("cli.stack.status", "Show services, queues, pods and nodes."),
    "top": Command("cli.top.command", "Show nodes and pods live, as they change."),
    "logs": Command("cli.stack.logs", "Print what a part of the local stack has logged."),
    "profile": Command("cli.operations.profile", "Sample where a service spends its time."),
    "explain": Command(
        "cli.decisions.explain", "Show why a node is there, a pod pending, or what a pool may buy."
    ),
    "decisions": Command("cli.decisions.listing", "List what the scheduler decided."),
    "replay": Command("cli.decisions.replay", "Make recorded decisions again."),
    "shadow": Command("cli.decisions.shadow", "Compare a shadow scheduler with the real one."),
    "approvals": Command(
        "cli.decisions.approvals", "List the disruption commands that wait for an approval."
    ),
    "approve": Command("cli.decisions.approvals", "Approve a disruption command that waits."),
    "reject": Command("cli.decisions.approvals", "Reject a disruption command that waits."),
    "halt": Command("cli.operations.halt", "Stop voluntary disruption."),
    "resume": Command("cli.operations.halt", "Undo `dovetail halt`."),
    "simulate": Command(
        "cli.manifests.simulate", "Show which machines would be created for these pods."
    ),
    "plan": Command(
        "cli.decisions.plan.command",
        "Show what changed manifests would do to the machines of a cluster.",
        misuse=1,
    ),
    "ledger": Command(
        "cli.decisions.ledger.command",
        "Show who causes which part of the cost, what rules cost, and what consolidations saved.",
    ),
    "validate": Command("cli.manifests.validate", "Check manifests of both API generations."),
    "convert": Command("cli.manifests.convert", "Convert manifests to the other API generation."),
    "migrate": Command(
        "cli.migration.command", "Move to Dovetail from Karpenter or Cluster Autoscaler."
    ),
    "doctor": Command(
        "cli.operations.doctor.command", "Check an installation: what is wrong, and what mends it."
    ),
    "audit": Command(
        "cli.operations.audit.command",
        "Judge a live cluster: which promises hold, and which are broken now.",
        misuse=1,
    ),
    "dead-letters": Command(
        "cli.operations.dead_letters", "Messages that no service could handle."
    ),
    "drill": Command("cli.drill.command", "Rehearse a spot interruption."),
    "interruption": Command(
        "cli.operations.interruption", "Interruption notices: check queue and rules."
    ),
    "secrets": Command(
        "cli.stack.secrets", "Write the secrets that the manifests in deploy/ need."
    ),
    "cloud": Command("cli.cloud.command", "Inject faults into the AWS emulator, and inspect it."),
}
"""By the name of the command, which is also the name of its function or of its group of commands."""
HELP = "A node autoscaler for Kubernetes on AWS, with a complete local stack to try it on."


class Lazy(TyperCommand):
    """A command that is imported when it is called: lists, completion and suggestions need only its name and summary.

    ``Any`` stands for classes of click that typer does not export.
    """

    module = ""
    misuse = MISUSE

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        command = _imported(self.module, str(self.name))
        try:
            return command.make_context(info_name, args, parent=parent, **extra)
        except typer.Exit:
            raise
        except Exception as error:
            # A UsageError of click, which typer does not export.
            if getattr(error, "exit_code", 0) == MISUSE:
                error.exit_code = self.misuse  # type: ignore[attr-defined]
            raise


def lazy(name: str, command: Command) -> Lazy:
    """The command ``name``, not imported yet."""
    made = Lazy(name, help=command.summary)
    made.module, made.misuse = command.module, command.misuse
    return made


def _imported(module: str, name: str) -> Any:
    found = getattr(import_module(module), name.replace("-", "_"))
    if isinstance(found, typer.Typer):
        return typer.main.get_command(found)
    one = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    one.command(name)(found)
    return typer.main.get_command(one)


class Commands(TyperGroup):
    """The group of all commands, in the order of ``offered``."""

    offered = COMMANDS

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: lazy(name, command) for name, command in self.offered.items()}


commands = typer.Typer(
    name="dovetail",
    cls=Commands,
    help=HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool) -> None:
    if requested:
        from shared.distribution.version import described  # imports the email package

        print(f"dovetail {described()}")
        raise typer.Exit


VersionOption = Annotated[
    bool,
    typer.Option(
        "--version", callback=_print_version, is_eager=True, help="Print version and commit."
    ),
]


@commands.callback()
def _options(version: VersionOption = False) -> None:
    """Options of the program, before any command."""


def app() -> None:
    """Entry point of the console script ``dovetail``."""
    # Pydantic looks through all installed packages for plugins, which takes longer than to read a manifest.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    gc.set_threshold(*COMMANDS_COLLECT_EVERY)
    end_in_order()
    run(commands)


def end_in_order() -> None:
    """SIGTERM and SIGHUP end this process as Ctrl-C does. One that is ignored, as under nohup, stays so.

    Output that the shell closed (``>&-``) goes nowhere: Python has None there, which libraries do not expect.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  to the process' end
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _end)


def _end(number: int, _frame: FrameType | None) -> None:
    """What a command has started is stopped, and the terminal is as it was."""
    raise SystemExit(128 + number)


def run(program: Callable[[], object]) -> None:
    """Call ``program``; a DovetailError or an OSError ends it with a message and exit code 1, Ctrl-C with 130."""
    try:
        program()
    except (DovetailError, OSError) as error:
        print(f"dovetail: {error}", file=sys.stderr)
        sys.exit(1)
    except SystemExit as end:
        if end.code == INTERRUPTED:  # typer catches Ctrl-C and prints nothing
            print(LINE, file=sys.stderr)
        raise
    except ModuleNotFoundError as error:
        if error.name not in MODULES:
            raise
        print(f"dovetail: {missing_extra(error.name).message}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    app()
