"""Checks that tests notice faults: applies one mutation at a time and runs what ought to fail.

tools/mutants.txt has each mutation, in the form of a patch. The line with a minus is looked up in
the file that is named, or in any file of app/ and shaders/ where it has moved; white space does not
count. Tests are names of test functions, `file:test_name` where several files have one, or names of
test files.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from hardsplat.gpu.device.cache import cache_dir

ROOT = Path(__file__).resolve().parents[1]
ROWS = Path(__file__).with_suffix(".txt")
LONGEST = 600.0  # seconds of the tests of one mutation, which may hang what it changes
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", re.MULTILINE)


class DoesNotApply(Exception):
    """The mutated text or its tests are not there, or not there once."""


@dataclass(frozen=True)
class Mutant:
    """find, put: the text and what replaces it. tests: as the file names them."""

    name: str
    file: str
    find: str
    put: str
    tests: list[str]


@dataclass
class Outcome:
    """result: noticed, survived, or why the row does not apply. by: the first test that failed."""

    name: str
    result: str
    by: str = ""
    seconds: float = 0.0


def read() -> list[Mutant]:
    """All of ROWS."""
    found = []
    for block in ROWS.read_text().split("\n\n"):
        head, *lines = block.strip().splitlines()
        if not head.startswith("#"):
            name, file, *tests = head.split()
            find, put = (
                "".join(line[2:] for line in lines if line[0] == sign) for sign in ("-", "+")
            )
            found.append(Mutant(name, file, find, put, tests))
    return found


def located(root: Path, mutant: Mutant) -> tuple[Path, str]:
    """The file that has the text of a mutant once, and the file's text with the mutation."""
    files = [path for top in ("app", "shaders") for path in sorted((root / top).rglob("*.*"))]
    files = [path for path in files if path.is_file() and path.suffix != ".pyc"]
    pattern = re.compile(r"\s*".join(map(re.escape, "".join(mutant.find.split()))))
    for group in ([p for p in files if p.name == mutant.file], files):
        texts = {path: path.read_text(errors="replace") for path in group}
        places = [(path, hit) for path, text in texts.items() for hit in pattern.finditer(text)]
        if len(places) == 1:
            path, hit = places[0]
            return path, texts[path][: hit.start()] + mutant.put + texts[path][hit.end() :]
    raise DoesNotApply(f"its text is found {len(places)} times")


def nodes_of(root: Path, mutant: Mutant) -> list[str]:
    """The pytest nodes of a mutant's tests, wherever these are below tests/."""
    files = {path: path.read_text() for path in sorted((root / "tests").rglob("test_*.py"))}
    nodes = []
    for test in mutant.tests:
        hint, _, name = test.rpartition(":")
        if name.endswith(".py"):
            found = [str(path.relative_to(root)) for path in files if path.name == name]
        else:
            function = name.partition("[")[0]
            owners = [p for p, text in files.items() if re.search(rf"\bdef {function}\(", text)]
            hinted = [path for path in owners if path.stem == f"test_{hint}"]
            found = [f"{path.relative_to(root)}::{name}" for path in hinted or owners]
        if not found:
            raise DoesNotApply(f"no test is named {test}")
        nodes += found
    return nodes


@contextmanager
def copied(root: Path) -> Iterator[Path]:
    """A temporary copy of the working tree, without what git ignores."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=root, check=True, capture_output=True, text=True).stdout
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder) / "tree"
        for name in filter(None, names.split("\0")):
            if (root / name).is_file() and not (root / name).is_symlink():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, copy / name)
        yield copy


def run_tests(copy: Path, nodes: Sequence[str], cache: Path, limit: float) -> tuple[int, str]:
    """(return code of pytest, what it printed); -1 where it took longer than `limit` seconds."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *nodes]
    paths = os.pathsep.join([str(copy / "app"), str(copy)])
    env = {**os.environ, "PYTHONPATH": paths, "HARDSPLAT_CACHE": str(cache)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, cwd=copy, env=env, start_new_session=True, **pipes) as process:
        try:
            output, _ = process.communicate(timeout=limit)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            return -1, ""
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # with what it started


def tried(copy: Path, warm: Path, mutant: Mutant) -> Outcome:
    """Whether the tests of a mutant notice it. warm: a cache of the tests without it."""
    try:
        (path, text), nodes = located(copy, mutant), nodes_of(copy, mutant)
    except DoesNotApply as error:
        return Outcome(mutant.name, str(error))
    before, stat = path.read_text(), path.stat()
    cache = copy.parent / "cache"  # its own, since a device may be found unsound and be remembered
    shutil.copytree(warm, cache)
    began = time.perf_counter()
    path.write_text(text)
    try:
        code, output = run_tests(copy, nodes, cache, LONGEST)
    finally:
        path.write_text(before)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # which compiled modules go by
        shutil.rmtree(cache)
    failed = FAILED.search(output)
    by = failed[1] if failed else "time" if code == -1 else f"exit code {code}" if code else ""
    result = {0: "survived", 4: "no test ran", 5: "no test ran"}.get(code, "noticed")
    return Outcome(mutant.name, result, by, time.perf_counter() - began)


def run(mutants: Sequence[Mutant]) -> list[Outcome]:
    with copied(ROOT) as copy:
        warm = copy.parent / "warm"
        shutil.copytree(cache_dir(), warm) if cache_dir().is_dir() else warm.mkdir()
        nodes: list[str] = []
        for mutant in mutants:
            with suppress(DoesNotApply):
                nodes += [node for node in nodes_of(copy, mutant) if node not in nodes]
        print(f"{len(nodes)} tests without a mutation ...", flush=True)
        code, output = run_tests(copy, nodes, warm, LONGEST * len(mutants))
        if code:
            raise SystemExit(f"the tests fail without a mutation:\n{output[-4000:]}")
        outcomes = []
        for mutant in mutants:
            outcomes.append(tried(copy, warm, mutant))
            print(f"{mutant.name}: {outcomes[-1].result}", flush=True)
        return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants to try; all by default")
    parser.add_argument("--list", action="store_true", help="print the mutants and where they are")
    args = parser.parse_args()
    mutants = [m for m in read() if not args.names or m.name in args.names]
    if not mutants:
        parser.error("no mutant has such a name; see --list")
    if args.list:
        for m in mutants:
            try:
                place, tests = located(ROOT, m)[0].relative_to(ROOT), nodes_of(ROOT, m)
                print(f"{m.name:24s} {place}  {' '.join(tests)}")
            except DoesNotApply as error:
                print(f"{m.name:24s} DOES NOT APPLY: {error}")
        return 0
    outcomes = run(mutants)
    print(f"\n{'mutant':24s} {'seconds':>7s}  result")
    for o in outcomes:
        print(f"{o.name:24s} {o.seconds:7.1f}  {o.result}  {o.by}")
    noticed = sum(o.result == "noticed" for o in outcomes)
    print(f"{noticed} of {len(outcomes)} mutations are noticed")
    return int(noticed < len(outcomes))


if __name__ == "__main__":
    sys.exit(main())
