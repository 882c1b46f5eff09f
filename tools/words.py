"""Checks the prose of code and documents, and prints what offends by file.

    python -m tools.words [PATH ...]

PATH is a file or a folder; without any, app, shaders, the README and the guides are checked.
Four rules are enforced:

- banned phrases of BANNED, in code, help, errors, comments and documents
- docstrings do not begin with Of, As, That or The same
- sentences of docstrings, README and guides have at most 35 words
- lines of Python, GLSL and of prose in documents have at most 100 columns
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/ARCHITECTURE.md",
    "docs/glossary.md",
    "docs/guide",
    "docs/architecture",
)
CODE = ("app", "shaders")
WORDS, COLUMNS = 35, 100
GLSL = {".glsl", ".comp", ".frag", ".vert", ".geom", ".mesh"}
TEXTS = {*GLSL, ".py", ".md", ".html", ".js", ".css", ".toml"}
OPENINGS = re.compile(r"(Of|As|That|The same)\b")

# The phrases that no file may have, and the words to write. A space stands for any white space,
# a line break and the comment sign after it included. A phrase also matches inside longer words.
BANNED = {
    "by heart": "overfitted",
    "set apart": "held for validation",
    "no say": "ignored",
    "looks on": "observes",
    "in vain": "unused",
    "whoever": "the caller",
    "knob": "option",
    "fragments that wait": "ordered fragments",
    "neither come nor go": "the count is fixed",
    "left to auto": "automatic",
    "shows least": "contributes least",
    "show least": "contribute least",
    "goes on with": "continues",
    "go on with": "continue",
    "in the place of": "instead of",
    "nobody": "no one",
    "somebody": "the user",
    "gave out": "failed",
    "gives out": "fails",
}


@dataclass(frozen=True)
class Offence:
    path: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


def pattern(phrase: str) -> re.Pattern[str]:
    """The phrase across line breaks and comment signs."""
    body = r"(?:\s|\n\s*(?:#|//|\*|>))+".join(map(re.escape, phrase.split()))
    return re.compile(body, re.IGNORECASE)


PHRASES = [(pattern(phrase), f"banned phrase ({word})") for phrase, word in BANNED.items()]


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def phrases(path: str, text: str) -> Iterator[Offence]:
    lines = text.splitlines()
    for expression, rule in PHRASES:
        for match in expression.finditer(text):
            line = line_of(text, match.start())
            yield Offence(path, line, rule, lines[line - 1].strip()[:120])


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """Yields (line, sentence) of prose: without code blocks, tables, headings and link targets.

    A blank line, a list item and an indented block end a sentence, as a full stop does, also before
    `name: what it is`.
    """
    paragraphs: list[tuple[int, list[str]]] = []
    fenced, ended = False, True
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if bare.startswith("```"):
            fenced, ended = not fenced, True
            continue
        indented = line.startswith("    ")
        if fenced or not bare or bare.startswith(("|", "#", "![")) or indented:
            ended = True
            continue
        item = re.match(r"([-*+]|\d+[.)])\s+", bare)
        if ended or item:
            paragraphs.append((number, []))
        paragraphs[-1][1].append(bare[item.end() :] if item else bare)
        ended = False
    for number, lines in paragraphs:
        joined = " ".join(lines)
        joined = re.sub(r"\]\([^)]*\)", "]", joined)
        joined = re.sub(r"`[^`]*`", "Code", joined)
        for sentence in re.split(r"(?<=[.!?])[)\"'*_]*\s+(?=[^a-z]|[a-z_, ]+: )", joined):
            yield number, sentence


def long_sentences(path: str, text: str, first: int = 1) -> Iterator[Offence]:
    for line, sentence in sentences(text):
        count = sum(any(letter.isalnum() for letter in word) for word in sentence.split())
        if count > WORDS:
            yield Offence(path, first + line - 1, f"{count} words", sentence[:120])


def docstrings(path: str, text: str) -> Iterator[Offence]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, kinds) or ast.get_docstring(node) is None:
            continue
        holder = node.body[0]
        docstring = ast.get_docstring(node) or ""
        if OPENINGS.match(docstring):
            yield Offence(path, holder.lineno, "docstring opens", docstring.splitlines()[0][:120])
        if not getattr(node, "name", "").startswith("_"):
            yield from long_sentences(path, docstring, holder.lineno)


def columns(path: str, text: str) -> Iterator[Offence]:
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > COLUMNS:
            yield Offence(path, number, f"{len(line)} columns", line.strip()[:80])


def prose_columns(path: str, text: str) -> Iterator[Offence]:
    """Yields wide lines of Markdown but for tables, headings, pictures and code."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        fenced ^= bare.startswith("```")
        exempt = fenced or bare.startswith(("|", "#", "![", "{"))
        if len(line) > COLUMNS and not exempt:
            yield Offence(path, number, f"{len(line)} columns", bare[:80])


def tracked(places: tuple[str, ...]) -> list[str]:
    """Lists the files of git below the places, new ones that git does not ignore included."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *places]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted({name for name in listed.splitlines() if (ROOT / name).is_file()})


def offences(places: tuple[str, ...]) -> Iterator[Offence]:
    """Yields all offences in the files below the places, relative to the repository."""
    for path in tracked(places):
        suffix = Path(path).suffix
        if suffix not in TEXTS or path in ("tools/words.py", "tests/tools/test_words.py"):
            continue
        text = (ROOT / path).read_text(encoding="utf-8")
        yield from phrases(path, text)
        if suffix == ".md":
            yield from long_sentences(path, text)
            yield from prose_columns(path, text)
        if suffix == ".py":
            yield from docstrings(path, text)
        if suffix == ".py" or suffix in GLSL:
            yield from columns(path, text)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.words",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", nargs="*", default=[*CODE, *DOCUMENTS])
    given = parser.parse_args()
    places = tuple(str(Path(path)) for path in given.paths)
    found = sorted(offences(places), key=lambda o: (o.path, o.line))
    print(*found, sep="\n")
    rules = Counter(re.sub(r"^\d+ ", "", offence.rule).split(" (")[0] for offence in found)
    total = ", ".join(f"{number} {rule}" for rule, number in rules.most_common())
    print(f"{len(found)} offences: {total}" if found else "0 offences", file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    raise SystemExit(main())
