"""The commands of shell lines: what a block would start, without starting it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

BETWEEN = {"|", "||", "&&", ";", ";;", "&", "(", ")", "{", "}", "|&"}
REDIRECTIONS = {">", ">>", "<", "2>", "<<<", ">&"}
WORDS_OF_THE_SHELL = {"if", "then", "else", "fi", "while", "until", "do", "done", "!"}
NO_CALLS = {"for"}
"""What follows is a list of words."""
_HEREDOC = re.compile(r"<<-?\s*'?(?P<end>\w+)'?")
_ASSIGNMENT = re.compile(r"^\w+=")


def logical_lines(text: str) -> Iterator[str]:
    """Lines with their continuations, also those of a pipe; the bodies of here-documents are left out."""
    end = ""
    for line in re.sub(r"\\\n|(?<=\|)\n", " ", text).splitlines():
        if end:
            end = "" if line.strip() == end else end
            continue
        if found := _HEREDOC.search(line):
            end = found["end"]
            line = line.replace(found[0], "")
        yield line


def here_documents(text: str) -> Iterator[tuple[str, str]]:
    """(line that begins it, body) of each here-document."""
    line, end, body = "", "", list[str]()
    for one in text.splitlines():
        if end and one.strip() == end:
            yield line, "".join(body)
            end, body = "", []
        elif end:
            body.append(f"{one}\n")
        elif found := _HEREDOC.search(one):
            line, end = one, found["end"]


def functions(text: str) -> set[str]:
    """The names of the shell functions that a text defines."""
    return set(re.findall(r"^\s*(\w+)\(\)", text, re.MULTILINE))


def calls(line: str) -> Iterator[tuple[str, ...]]:
    """Each call in a shell line, the program first: of pipes, lists and ``$(...)``, without variables set before it.

    Nothing for a line that no shell could read (prose with an apostrophe).
    """
    for inner in re.findall(r"\$\(([^()]+)\)", line):
        yield from calls(inner)
    lexer = shlex.shlex(re.sub(r"\$\([^()]+\)", "VALUE", line), posix=True, punctuation_chars=True)
    lexer.commenters = "#"
    lexer.wordchars += ",:@%^!$+[]"
    try:
        tokens = list(lexer)
    except ValueError:
        return
    part: list[str] = []
    for token in [*tokens, ";"]:
        if token in BETWEEN:
            if words := _call(part):
                yield words
            part = []
        else:
            part.append(token)


def _call(tokens: list[str]) -> tuple[str, ...]:
    words: list[str] = []
    skip = False
    for token in tokens:
        if skip or token in REDIRECTIONS:
            skip = not skip and token in REDIRECTIONS
        elif words or not (_ASSIGNMENT.match(token) or token in WORDS_OF_THE_SHELL):
            words.append(token)
    return () if words and words[0] in NO_CALLS else tuple(words)
