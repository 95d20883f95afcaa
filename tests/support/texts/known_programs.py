"""Whether a command line of the documents names a command and options that the program has.

Nothing is run but ``--help``. ``kubectl`` and ``helm`` are questioned where they are installed, ``aws`` by the models
of botocore; for programs that are on few machines ``OPTIONS`` holds what their own documentation lists.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import botocore.session
from botocore import xform_name
from botocore.exceptions import UnknownServiceError

from tests.support.texts.citations import PROJECT

PLAIN = {
    "awk",
    "bash",
    "cat",
    "cd",
    "curl",
    "cut",
    "echo",
    "export",
    "git",
    "grep",
    "head",
    "jq",
    "kill",
    "mkdir",
    "openssl",
    "pipx",
    "pkill",
    "python",
    "python3",
    "sha256sum",
    "sed",
    "shift",
    "sleep",
    "systemctl",
    "source",
    "tee",
    "test",
    "true",
    "wait",
    "xargs",
    ".venv/bin/pip",
    ".venv/bin/python",
    ".venv/bin/pre-commit",
}
"""Programs and words of the shell whose options nobody checks."""
OPTIONS: dict[tuple[str, ...], set[str]] = {
    ("eksctl", "create", "cluster"): {"-f", "--config-file"},
    ("eksctl", "create", "podidentityassociation"): {
        "--cluster",
        "--region",
        "--namespace",
        "--service-account-name",
        "--role-arn",
        "--permission-policy-arns",
        "--role-name",
        "-f",
        "--config-file",
    },
    ("eksctl", "create", "iamserviceaccount"): {
        "--cluster",
        "--region",
        "--namespace",
        "--name",
        "--role-name",
        "--attach-policy-arn",
        "--attach-role-arn",
        "--role-only",
        "--approve",
        "--override-existing-serviceaccounts",
        "-f",
        "--config-file",
    },
    ("eksctl", "create", "iamidentitymapping"): {
        "--cluster",
        "--region",
        "--arn",
        "--username",
        "--group",
    },
    ("eksctl", "utils", "associate-iam-oidc-provider"): {"--cluster", "--region", "--approve"},
    ("eksctl", "delete", "cluster"): {"--name", "--region", "--wait"},
    ("terraform", "init"): {"-upgrade"},
    ("terraform", "apply"): {"-var", "-auto-approve"},
    ("terraform", "destroy"): {"-var", "-auto-approve"},
    ("terraform", "output"): {"-raw", "-json"},
    ("aws", "cloudformation", "deploy"): {
        "--stack-name",
        "--template-file",
        "--capabilities",
        "--parameter-overrides",
        "--region",
    },
    ("aws", "ecr", "get-login-password"): {"--region"},
    ("aws", "eks", "update-kubeconfig"): {"--name", "--region"},
    ("docker", "build"): {"--tag", "--build-arg", "--target", "--secret", "--platform", "--push"},
    ("docker", "buildx", "create"): {"--use", "--name", "--driver"},
    ("docker", "buildx", "build"): {
        "--platform",
        "--push",
        "--tag",
        "--target",
        "--build-arg",
        "--secret",
        "--sbom",
        "--provenance",
        "--output",
    },
    ("docker", "push"): set(),
    ("docker", "run"): {"--rm", "--platform"},
    ("docker", "login"): {"--username", "--password-stdin"},
    ("docker", "compose", "up"): {"--build", "--detach", "--wait", "--profile"},
    ("docker", "compose", "ps"): set(),
    ("docker", "compose", "logs"): {"--follow"},
    ("docker", "compose", "run"): {"--rm"},
    ("docker", "compose", "down"): {"--volumes"},
    ("docker", "compose", "exec"): set(),
    ("redis-cli",): {"-u", "--scan", "--pattern", "--no-auth-warning"},
    ("helm", "install"): {
        "--namespace",
        "--create-namespace",
        "--values",
        "-f",
        "--set",
        "--set-string",
        "--wait",
        "--timeout",
        "--version",
    },
    ("helm", "upgrade"): {
        "--install",
        "--namespace",
        "--create-namespace",
        "--values",
        "-f",
        "--set",
        "--set-string",
        "--wait",
        "--timeout",
        "--version",
        "--take-ownership",
        "--reuse-values",
        "--reset-then-reuse-values",
        "--atomic",
    },
    ("helm", "rollback"): {"--namespace", "--wait", "--timeout"},
    ("helm", "history"): {"--namespace"},
    ("helm", "uninstall"): {"--namespace", "--wait"},
    ("helm", "template"): {"--namespace", "--values", "-f", "--set", "--set-string"},
    ("helm", "get", "values"): {"--namespace", "--all"},
}
"""The options of commands, by their words, where the program itself is not questioned."""
GLOBAL = {"--help", "-h", "--region", "--output", "--query", "--profile", "--no-cli-pager"}
"""Options that each command of the AWS command line has."""


def fault(words: Sequence[str]) -> str:
    """What is wrong with a call, or nothing. The options of ``PLAIN`` programs are not looked at."""
    program = words[0]
    if program in CHECKS:
        return CHECKS[program](words)
    if program in PLAIN or program in {"dovetail", ".venv/bin/dovetail"}:
        return ""  # tests/cli/test_documented_commands.py parses those of ours
    known = _listed(words)
    return known if any(program == one[0] for one in OPTIONS) else f"{program}: unknown program"


def options_of(words: Sequence[str]) -> list[str]:
    """The options that a call names, without their values; nothing after ``--`` counts."""
    mine = words[: words.index("--")] if "--" in words else words
    return [word.partition("=")[0] for word in mine if re.match(r"--?[A-Za-z]", word)]


def _listed(all_words: Sequence[str]) -> str:
    # Of terraform one option, the folder, stands before the command.
    words = [word for word in all_words if not word.startswith("-chdir=")]
    for size in (3, 2, 1):
        known = OPTIONS.get(tuple(words[:size]))
        if known is not None:
            ours = list(words[size:])
            if words[0] == "docker" and {"run", "exec"} & set(words[1:3]):
                ours = ours[:2]  # what follows the image is its program's
            unknown = [one for one in options_of(ours) if one not in known]
            return f"{' '.join(words[:size])}: unknown options {unknown}" if unknown else ""
    return f"{' '.join(words[:3])}: not in the list of commands"


def _make(words: Sequence[str]) -> str:
    targets = re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    wanted = [word for word in words[1:] if "=" not in word and not word.startswith("-")]
    return "".join(f"make {one}: no such target" for one in wanted if one not in targets)


def _aws(words: Sequence[str]) -> str:
    if tuple(words[:3]) in OPTIONS:
        return _listed(words)
    service, command = [*words[1:3], "", ""][:2]
    try:
        model = _session().get_service_model(service)
    except UnknownServiceError:
        return f"aws {service}: unknown service"
    actions = {xform_name(one, "-"): one for one in model.operation_names}
    if command not in actions:
        return f"aws {service} {command}: unknown command"
    shape = model.operation_model(actions[command]).input_shape
    known = {f"--{xform_name(one, '-')}" for one in (shape.members if shape else {})} | GLOBAL
    unknown = [one for one in options_of(words[3:]) if one not in known]
    return f"aws {service} {command}: unknown options {unknown}" if unknown else ""


@cache
def _session() -> botocore.session.Session:
    return botocore.session.get_session()


def _questioned(words: Sequence[str]) -> str:
    """By the program's own help, where it is installed; by the list elsewhere, which has nothing of kubectl."""
    program = shutil.which(words[0])
    if words[:2] == ("kubectl", "dovetail"):
        return ""  # ours, as above
    if program is None:
        return _listed(words) if words[0] == "helm" else ""
    verbs = _verbs(program, words[1:])
    if not verbs:
        return f"{words[0]} {' '.join(words[1:3])}: unknown command"
    known = _known_options(program, *verbs)
    unknown = [one for one in options_of(words[1:]) if one not in known]
    return f"{words[0]} {' '.join(verbs)}: unknown options {unknown}" if unknown else ""


def _verbs(program: str, words: Sequence[str]) -> tuple[str, ...]:
    """The words of the command; a group of commands needs its command, too."""
    plain = [
        word for word in _without_leading_options(words) if re.fullmatch(r"[a-z][a-z-]*", word)
    ]
    if not plain or plain[0] not in _below(program):
        return ()
    depth = 1
    while depth < len(plain) and plain[depth] in _below(program, *plain[:depth]):
        depth += 1
    return tuple(plain[:depth])


def _without_leading_options(words: Sequence[str]) -> Sequence[str]:
    """``-n NAME`` and the like may stand before the command."""
    while words and words[0].startswith("-"):
        words = words[1:] if "=" in words[0] else words[2:]
    return words


@cache
def _help(program: str, *words: str) -> str:
    done = subprocess.run(
        [program, *words, "--help"], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout + done.stderr


@cache
def _below(program: str, *words: str) -> set[str]:
    """The commands that a help text lists: a word, two spaces or a tab, and what it does."""
    return set(re.findall(r"^  ([a-z][a-z-]+)\s{1,}\S", _help(program, *words), re.MULTILINE))


@cache
def _known_options(program: str, *words: str) -> set[str]:
    general = ("options",) if Path(program).name == "kubectl" else ()
    text = _help(program, *words)
    if general:
        text += subprocess.run(
            [program, *general], capture_output=True, text=True, timeout=60, check=False
        ).stdout
    long = set(re.findall(r"^\s+(?:-\w, )?(--[\w-]+)", text, re.MULTILINE))
    short = set(re.findall(r"^\s+(-\w), --", text, re.MULTILINE))
    return long | short | {"--help", "-h"}


CHECKS: dict[str, Callable[[Sequence[str]], str]] = {
    "make": _make,
    "aws": _aws,
    "kubectl": _questioned,
    "helm": _questioned,
}
