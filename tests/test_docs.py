# SPDX-License-Identifier: Apache-2.0
"""What the documents show runs, what they link to exists. Run as a program it writes docs/cli.md anew."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
CLI = ROOT / "docs" / "cli.md"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
RUN_FROM = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])

# `<!-- not run: the reason -->` on the line above a block, or above the empty line before it.
BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>.+?) -->\n\n?)?"
    r"^(?P<fence>```+)(?P<language>\w+)[^\n]*\n(?P<text>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)
SHELL = {"bash", "console", "sh", "shell"}
# What a reader saves as a file, with the code that reads such a file.
INPUTS = {
    "toml": "import pathlib, joulelab.study.study_file as s\ns.read_study(pathlib.Path({}))",
    "json": "from joulelab.hardware.fake_file import read\nassert read({})",
}
# Top folders whose files documents name in passing.
PLACES = ("src/", "tests/", "docs/", "studies/", "examples/", "benchmarks/", ".ci/")

COMMAND = "import sys; sys.argv[0] = 'joulelab'; from joulelab.cli import main; main()"

# In place of the real ones: what they would do is tried elsewhere, here only that a reader can type it.
STAND_INS = {
    "joulelab": f'exec {shlex.quote(sys.executable)} -c "{COMMAND}" "$@"',
    "python": f'exec {shlex.quote(sys.executable)} "$@"',
    "make": 'for word in "$@"; do case "$word" in *=*|-*) ;; *) grep -q "^$word:" "$HOUSE/Makefile" || '
    '{ echo "no target $word" >&2; exit 2; } ;; esac; done',
    "git": '[ "$1" = clone ] && mkdir -p "$(basename "${3:-$2}" .git)"',
    **dict.fromkeys(
        ["pip", "sudo", "apt", "apt-get", "sbatch", "srun", "torchrun", "ssh", "curl"],
        'echo "$0 is not run by the tests: mark the block with <!-- not run: reason -->" >&2; exit 3',
    ),
}


@dataclass(frozen=True)
class Block:
    document: Path
    line: int
    language: str
    text: str
    reason: str  # why it is not run; empty if it is

    def __str__(self) -> str:
        return f"{self.document.name}:{self.line}"


def blocks_of(document: Path) -> list[Block]:
    text = document.read_text(encoding="utf-8")
    found = []
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("fence")) + 1
        found.append(Block(document, line, match["language"], match["text"], match["reason"] or ""))
    return [block for block in found if block.language in {"python", *SHELL, *INPUTS}]


def commands(block: Block) -> str:
    """What a reader types: of a console, the lines after the prompt; otherwise all of it."""
    if block.language != "console":
        return block.text
    typed: list[str] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            typed.append(line[2:])
        elif typed and typed[-1].endswith("\\"):
            typed.append(line)
    return "\n".join(typed)


def stand_ins(folder: Path) -> Path:
    folder.mkdir()
    for name, text in STAND_INS.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    return folder


def run(block: Block, folder: Path) -> subprocess.CompletedProcess[str]:
    """The block as a reader would run it, in a folder that has the repository's studies and examples."""
    here = folder / "here"
    here.mkdir()
    for name in ("studies", "examples", "src"):
        (here / name).symlink_to(ROOT / name)
    env = {
        **os.environ,
        "PATH": f"{stand_ins(folder / 'bin')}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "HOUSE": str(ROOT),
        "NO_COLOR": "1",
    }
    words = ["bash", "-euo", "pipefail", "-s"] if block.language in SHELL else ["python", "-"]
    typed = commands(block)
    if block.language in INPUTS:
        file = here / f"block.{block.language}"
        file.write_text(typed, encoding="utf-8")
        typed = INPUTS[block.language].format(repr(str(file)))
    return subprocess.run(
        words,
        input=typed,
        cwd=here,
        env=env,
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )


BLOCKS = [block for document in RUN_FROM if document.exists() for block in blocks_of(document)]


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_block_runs(block: Block, weird_tmp_path: Path) -> None:
    if block.reason:
        pytest.skip(f"{block}: marked as not run: {block.reason}")
    done = run(block, weird_tmp_path)
    assert done.returncode == 0, f"{block}\n{block.text}\n{done.stdout[-1500:]}\n{done.stderr[-1500:]}"
    assert "Traceback" not in done.stderr, done.stderr[-1500:]


def test_no_block_hides_in_an_indent() -> None:
    hidden = [
        f"{document.name}: {line.strip()}"
        for document in RUN_FROM
        for line in document.read_text(encoding="utf-8").splitlines()
        if re.match(r"\s+```(python|bash|console|sh|shell)\b", line)
    ]
    assert hidden == []


def test_most_blocks_are_run() -> None:
    marked = [str(block) for block in BLOCKS if block.reason]
    assert BLOCKS
    assert len(marked) * 2 <= len(BLOCKS), f"{len(marked)} of {len(BLOCKS)} are marked as not run: {marked}"


def headings(text: str) -> set[str]:
    """Anchors as they are made from headings: lower case, no punctuation, blanks to hyphens."""
    plain = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"^#+ +(.+)$", plain, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in found}


def broken_links(document: Path) -> list[str]:
    """Links to files, anchors and paths that do not exist."""
    text = document.read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    found = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", path):
            continue  # another machine's business
        file = document.parent / path if path else document
        if not file.exists() or (anchor and anchor not in headings(file.read_text(encoding="utf-8"))):
            found.append(target)
    for named in re.findall(r"`([^`\s]+)`", prose):
        # Capitals stand for a name that the reader chooses; a colon begins a line number or a class.
        path = named.partition(":")[0]
        if path.startswith(PLACES) and not re.search(r"[*<{]|[A-Z]{3}", path) and not (ROOT / path).exists():
            found.append(named)
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_named_files_exist(document: Path) -> None:
    assert broken_links(document) == []


def test_every_document_is_reached_from_the_readme() -> None:
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "CONTRIBUTING.md"))
    assert [path.name for path in DOCUMENTS if path.name != "README.md" and path.name not in text] == []


def test_recipes_are_short() -> None:
    _, *recipes = re.split(
        r"^## (?=An? )", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    lines = {recipe.splitlines()[0]: re.findall(r"^\d+\. .*$", recipe, re.MULTILINE) for recipe in recipes}
    assert set(lines) == {"A vendor", "A workload", "A knob", "A launcher", "A figure", "An import"}
    for name, steps in lines.items():
        assert 3 <= len(steps) <= 8, name
        assert re.search(r"`\S+/\S+`", steps[0]), name


def help_of(words: list[str]) -> str:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"}
    env.pop("FORCE_COLOR", None)
    command = [sys.executable, "-c", COMMAND, *words, "--help"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=30, check=True)
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())


def command_reference() -> str:
    """docs/cli.md: the help of each command, as the command says it."""
    from joulelab.cli import app  # loads typer, which only this document needs

    def words_of(typer: Any) -> list[list[str]]:
        found = [[c.name or c.callback.__name__] for c in typer.registered_commands if c.callback]
        for group in typer.registered_groups:
            found += [[group.name], *([group.name, *words] for words in words_of(group.typer_instance))]
        return found

    head = (
        "# The commands\n\nWritten by `make docs` from the commands' own `--help`; a test holds it to them.\n"
    )
    parts = [
        f"## {' '.join(['joulelab', *words])}\n\n```text\n{help_of(words)}\n```\n"
        for words in [[], *words_of(app)]
    ]
    return "\n".join([head, *parts])


def test_command_reference_is_up_to_date() -> None:
    assert CLI.read_text(encoding="utf-8") == command_reference(), "run `make docs`"


# The checks themselves, on documents made for them.


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("```python\nimport joulelab\nassert joulelab.__version__\n```\n", 0),
        ("```python\nraise SystemExit(4)\n```\n", 4),
        ("```bash\nfalse\ntrue\n```\n", 1),
        ("```bash\nmake demo\nmake setup PYTHON=python3.12\n```\n", 0),
        ("```bash\nmake nonsense\n```\n", 2),
        ("```bash\ngit clone https://example.org/joulelab.git\ncd joulelab\n```\n", 0),
        ("```bash\nsudo reboot\n```\n", 3),
        ("```console\n$ test -d studies && \\\n  test -d examples\nany output\n```\n", 0),
        ("```console\n$ false\n```\n", 1),
        ('```toml\nworkload = "nt3"\n[grid]\nbatch_size = [10, 20]\n```\n', 0),
        ('```toml\nworkload = "nt3"\n[grid]\nbatch_sizes = [10, 20]\n```\n', 1),
        ('```json\n{"shape": "constant", "load": {"power_w": 400}}\n```\n', 0),
        ('```json\n{"shape": "constant", "laod": {"power_w": 400}}\n```\n', 1),
    ],
)
def test_a_block_is_run_as_it_stands(weird_tmp_path: Path, text: str, code: int) -> None:
    document = weird_tmp_path / "document.md"
    document.write_text(f"# Title\n\n{text}", encoding="utf-8")
    (block,) = blocks_of(document)
    assert (block.line, block.reason) == (3, "")
    assert run(block, weird_tmp_path).returncode == code


def test_a_marked_block_is_found_with_its_reason(tmp_path: Path) -> None:
    document = tmp_path / "document.md"
    text = "<!-- not run: needs a cluster -->\n```bash\nsbatch x\n```\n\n```text\nno\n```\n"
    document.write_text(text, encoding="utf-8")
    (block,) = blocks_of(document)
    assert (block.line, block.reason) == (2, "needs a cluster")


def test_broken_links_are_found(tmp_path: Path) -> None:
    document = tmp_path / "document.md"
    (tmp_path / "other.md").write_text("# One Title\n", encoding="utf-8")
    good = "[a](other.md) [b](other.md#one-title) [c](https://example.org/) `tests/conftest.py` `src/NAME`"
    bad = "[a](gone.md) [b](other.md#gone) [c](#gone) `src/joulelab/gone.py`"
    document.write_text(f"{good}\n{bad}\n", encoding="utf-8")
    assert broken_links(document) == ["gone.md", "other.md#gone", "#gone", "src/joulelab/gone.py"]


if __name__ == "__main__":
    CLI.parent.mkdir(exist_ok=True)
    CLI.write_text(command_reference(), encoding="utf-8")
