"""Entry points of the kubectl plugin: ``kubectl-dovetail``, and ``kubectl_complete-dovetail`` for its completion.

kubectl finds both by their names on PATH, and passes on the words after ``kubectl dovetail``.
"""

from __future__ import annotations

import io
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from itertools import pairwise
from typing import Annotated

import typer
from typer.completion import completion_init  # type: ignore[attr-defined]

from cli.kubectl.addresses import address_cluster
from cli.kubectl.names import contexts
from cli.main import COMMANDS, Command, Commands, VersionOption, end_in_order, run

PROGRAM = "kubectl dovetail"
FOR_CLUSTERS = (
    *(
        "status",
        "top",
        "explain",
        "approvals",
        "approve",
        "reject",
        "halt",
        "resume",
        "simulate",
        "plan",
        "ledger",
        "validate",
        "convert",
        "migrate",
    ),
    *("doctor", "audit", "dead-letters", "drill", "interruption", "secrets"),
)
LOGS = Command("cli.kubectl.logs", "Print what the pods of a service have logged.")
ANYWHERE = ("--context", "--kubeconfig")
"""Options of the program that may also follow a command, as kubectl's own may."""
NO_FILES, FILES = ":4", ":0"
"""The last line of an answer to kubectl: whether the shell completes names of files when nothing is found."""


class PluginCommands(Commands):
    """The commands that make sense for a cluster."""

    offered = {**{name: COMMANDS[name] for name in FOR_CLUSTERS}, "logs": LOGS}  # noqa: RUF012  read only


plugin = typer.Typer(
    name="kubectl-dovetail",
    cls=PluginCommands,
    help="Dovetail in the cluster of the current context, through its API server.",
    no_args_is_help=True,
    add_completion=False,  # kubectl's own completion asks kubectl_complete-dovetail
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@plugin.callback()
def _options(
    context: Annotated[
        str, typer.Option(help="Context of the kubeconfig.", autocompletion=contexts)
    ] = "",
    kubeconfig: Annotated[
        str, typer.Option(help="The kubeconfig (KUBECONFIG, else ~/.kube/config).")
    ] = "",
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace", "-n", help="Dovetail's namespace (DOVETAIL_NAMESPACE, else dovetail)."
        ),
    ] = "",
    version: VersionOption = False,
) -> None:
    """Options of the program, before any command."""
    address_cluster(kubeconfig, context, namespace)


def app() -> None:
    """Entry point of ``kubectl-dovetail``."""
    end_in_order()
    run(lambda: plugin(args=options_first(sys.argv[1:]), prog_name=PROGRAM))


def options_first(words: Sequence[str]) -> list[str]:
    """The words with the options of ``ANYWHERE`` at the front, up to a word ``--``."""
    front, rest, given = [], [], list(words)
    while given and given[0] != "--":
        word = given.pop(0)
        name, equals, _ = word.partition("=")
        if name not in ANYWHERE:
            rest.append(word)
            continue
        front.append(word)
        if not equals and given:
            front.append(given.pop(0))
    return [*front, *rest, *given]


def complete() -> None:
    """Entry point of ``kubectl_complete-dovetail``: one completion per line, then what kubectl may add to them."""
    for line in completions(sys.argv[1:] or [""]):
        print(line)


def completions(words: Sequence[str]) -> list[str]:
    """The lines for kubectl; the last word is the one to complete. A description follows its completion after a tab."""
    address_cluster(**_named(words))
    # What a shell sets that typer made a script for; fish's form has the descriptions.
    asked = {
        "_DOVETAIL_COMPLETE": "complete_fish",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_ARGS": f"{PROGRAM.replace(' ', '-')} {shlex.join(words[:-1])} {words[-1]}",
    }
    os.environ.update(asked)
    completion_init()
    printed = io.StringIO()
    with redirect_stdout(printed), suppress(SystemExit):
        plugin(args=[], prog_name=PROGRAM, complete_var="_DOVETAIL_COMPLETE")
    found = [line for line in printed.getvalue().splitlines() if line]
    return [*found, NO_FILES if found else FILES]


def _named(words: Sequence[str]) -> dict[str, str]:
    """Values of the program's options: completion calls no function that reads them."""
    given = dict(pairwise(words))
    found = {name: given.get(f"--{name}", "") for name in ("kubeconfig", "context", "namespace")}
    return found | ({"namespace": given["-n"]} if "-n" in words[:2] else {})
