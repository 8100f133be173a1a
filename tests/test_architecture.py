# SPDX-License-Identifier: Apache-2.0
"""The sources keep to the table in ARCHITECTURE.md. Run as a program it prints every disagreement."""

from __future__ import annotations

import ast
import graphlib
import re
import statistics
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src" / "joulelab"

# Path below the repository to the reason why it is longer than 400 lines. This list only shrinks.
LONG_FILES: dict[str, str] = {}

# Import name to the name in pyproject.toml, where they differ.
DISTRIBUTIONS = {"pynvml": "nvidia-ml-py", "PIL": "pillow"}


@dataclass
class Imports:
    """Names of rooms and libraries, each with the place of one import of it."""

    top: dict[str, str] = field(default_factory=dict)
    inside: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    top: frozenset[str]
    inside: frozenset[str]


def read_table(text: str) -> dict[str, Row]:
    """The rooms in the order of the table."""
    rows: dict[str, Row] = {}
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("| room |"):
            break
    for line in lines:
        if not line.startswith("|"):
            break
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if set(cells[0]) <= {"-"}:
            continue
        top, inside = (frozenset(re.findall(r"`(\w+)`", cell)) for cell in cells[2:4])
        rows[cells[0].strip("`")] = Row(top, inside)
    return rows


def room_of(file: Path, src: Path) -> str:
    return file.relative_to(src).parts[0].removesuffix(".py")


def names_in(tree: ast.Module, *, is_root: bool, rooms: set[str]) -> Iterator[tuple[str, bool, int]]:
    """Every room or library that a file names: the name, whether it is loaded on import, the line."""

    def of_joulelab(parts: list[str]) -> str:
        return parts[1] if len(parts) > 1 else "__init__"

    # The package is loaded before any of its files, so its version and its path are no dependency.
    attributes = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    used = [
        node.attr for node in attributes if isinstance(node.value, ast.Name) and node.value.id == "joulelab"
    ]
    only_dunders = all(name.startswith("__") for name in used)

    def named_by(node: ast.AST) -> list[str]:
        if isinstance(node, ast.Import):
            return [alias.name for alias in node.names if not (alias.name == "joulelab" and only_dunders)]
        if isinstance(node, ast.ImportFrom) and node.module == "joulelab":
            names = [alias.name for alias in node.names if alias.name != "__version__"]
            return [f"joulelab.{name}" if name in rooms else "joulelab" for name in names]
        return [node.module or ""] if isinstance(node, ast.ImportFrom) else []

    def walk(node: ast.AST, *, top: bool) -> Iterator[tuple[str, bool, int]]:
        for parts in (name.split(".") for name in named_by(node)):
            yield (
                (of_joulelab(parts) if parts[0] == "joulelab" else parts[0]),
                top,
                getattr(node, "lineno", 0),
            )
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            match = re.fullmatch(r"joulelab\.(\w+)[\w.]*(:\w+)?", node.value)
            if match and (match[2] or is_root):
                yield match[1], False, node.lineno
        lazy = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            typing = (
                isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and child in node.body
            )
            yield from walk(child, top=top and not lazy and not typing)

    yield from walk(tree, top=True)


def read_sources(src: Path) -> dict[str, Imports]:
    """What each room imports from other rooms and from libraries."""
    files = sorted(src.rglob("*.py"))
    rooms = {room_of(file, src) for file in files}
    found = {room: Imports() for room in rooms}
    for file in files:
        room = room_of(file, src)
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for name, top, line in names_in(tree, is_root=file == src / "__init__.py", rooms=rooms):
            if name != room and name not in sys.stdlib_module_names:
                place = f"{file.relative_to(src)}:{line}"
                (found[room].top if top else found[room].inside).setdefault(name, place)
    return found


def complaints(table: dict[str, Row], found: dict[str, Imports]) -> list[str]:
    """Every disagreement between the table and the sources."""
    strangers = sorted(set(found) - set(table))
    said = [f"'{room}' is in the sources and has no row in the table" for room in strangers]
    said += [f"'{room}' has a row in the table and no source" for room in table if room not in found]
    order = list(table)
    for room in order:
        row, imports = table[room], found.get(room, Imports())
        for name in sorted((row.top | row.inside) & set(order)):
            if order.index(name) <= order.index(room):
                said.append(f"the table lets '{room}' import '{name}', which is not below it")
        for name, place in imports.top.items():
            if name not in row.top:
                said.append(f"{place}: '{room}' may not import '{name}' at the top")
        for name, place in imports.inside.items():
            if name not in row.top | row.inside:
                said.append(f"{place}: '{room}' may not import '{name}'")
        unused = row.top - set(imports.top)
        said += [f"'{room}' makes no use of '{name}' at the top" for name in sorted(unused)]
        unused = row.inside - set(imports.inside) | (row.inside & row.top)
        said += [f"'{room}' makes no use of '{name}' inside functions" for name in sorted(unused)]
    return said


def file_graph(src: Path) -> dict[str, set[str]]:
    """Which files load which others on import, by module name."""
    modules = {}
    for file in src.rglob("*.py"):
        dotted = ".".join((src.name, *file.relative_to(src).with_suffix("").parts))
        modules[dotted.removesuffix(".__init__")] = file
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for name, file in modules.items():
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            targets: list[str] = []
            if isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                targets = [f"{node.module}.{alias.name}" for alias in node.names]
                targets = [target if target in modules else node.module for target in targets]
            graph[name].update(target for target in targets if target in modules and target != name)
    return graph


def long_files(root: Path, allowed: dict[str, str]) -> list[str]:
    """Files over 400 lines without a reason, and reasons without such a file."""
    lengths = {
        str(file.relative_to(root)): len(file.read_text(encoding="utf-8").splitlines())
        for folder in ("src", "tests", "benchmarks", "examples")
        for file in (root / folder).rglob("*.py")
    }
    said = [f"{file} has {n} lines" for file, n in lengths.items() if n > 400 and not allowed.get(file)]
    return said + [f"{file} needs no entry" for file in allowed if lengths.get(file, 0) <= 400]


def test_sources_keep_to_the_table() -> None:
    table = read_table((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    assert "records" in table
    assert "\n".join(complaints(table, read_sources(SRC))) == ""


def test_no_file_loads_itself_in_a_circle() -> None:
    graphlib.TopologicalSorter(file_graph(SRC)).prepare()


def test_files_are_short() -> None:
    assert not long_files(ROOT, LONG_FILES)
    lengths = [len(file.read_text(encoding="utf-8").splitlines()) for file in SRC.rglob("*.py")]
    assert statistics.median(lengths) < 150
    assert statistics.quantiles(lengths, n=10)[-1] < 350


def test_libraries_are_declared() -> None:
    table = read_table((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["loaders"], *extras["vision"]]
    declared = {re.split(r"[^A-Za-z0-9-]", requirement)[0] for requirement in wanted}
    used = set().union(*(row.top | row.inside for row in table.values())) - set(table)
    assert {DISTRIBUTIONS.get(name, name) for name in used} == declared


def test_every_source_states_its_licence() -> None:
    folders = ("src", "tests", "benchmarks", "examples")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    wanted = "# SPDX-License-Identifier: Apache-2.0\n"
    assert [str(file) for file in files if not file.read_text(encoding="utf-8").startswith(wanted)] == []


# The checks themselves, on sources made for them.

TABLE = """
| room | purpose | may import at the top | may import inside functions |
|---|---|---|---|
| `high` | x | `low` | `heavy` |
| `low` | x | | |

| another | table |
"""
HIGH = "import os\nfrom joulelab.low import part\ndef f():\n    import heavy.sub\n"


def disagreements(folder: Path, table: str = TABLE, **files: str) -> list[str]:
    src = folder / "joulelab"
    for name, text in {"high/__init__": "", "high/a": HIGH, "low/part": "import json\n", **files}.items():
        file = src / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return complaints(read_table(table), read_sources(src))


def test_table_and_sources_that_agree(tmp_path: Path) -> None:
    own = "import joulelab\nfrom joulelab import __version__\nprint(joulelab.__file__)\n"
    assert disagreements(tmp_path, **{"low/b": own}) == []


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("low/b", "from joulelab.high import a\n", "low/b.py:1: 'low' may not import 'high' at the top"),
        ("low/b", "def f():\n    import joulelab.high.a\n", "low/b.py:2: 'low' may not import 'high'"),
        ("low/b", "from joulelab import high\n", "low/b.py:1: 'low' may not import 'high' at the top"),
        ("low/b", "PARTS = {'a': 'joulelab.high.a:A'}\n", "low/b.py:1: 'low' may not import 'high'"),
        ("low/b", "if TYPE_CHECKING:\n    import heavy\n", "low/b.py:2: 'low' may not import 'heavy'"),
        ("low/b", "try:\n    import heavy\nexcept ImportError: pass\n", "may not import 'heavy' at the top"),
        ("high/b", "class A:\n    import heavy\n", "high/b.py:2: 'high' may not import 'heavy' at the top"),
        ("high/a", "from joulelab.low import part\n", "'high' makes no use of 'heavy' inside functions"),
        ("high/a", "def f():\n    import heavy, joulelab.low\n", "'high' makes no use of 'low' at the top"),
        (
            "low/b",
            "import joulelab\njoulelab.run()\n",
            "low/b.py:1: 'low' may not import '__init__' at the top",
        ),
        ("third", "", "'third' is in the sources and has no row in the table"),
    ],
)
def test_a_disagreement_is_found(tmp_path: Path, file: str, text: str, said: str) -> None:
    found = disagreements(tmp_path, **{file: text})
    assert len(found) == 1
    assert said in found[0]


def test_a_table_that_is_wrong_in_itself(tmp_path: Path) -> None:
    upward = TABLE.replace("| `low` | x | | |", "| `low` | x | `high` | |\n| `gone` | x | | |")
    found = disagreements(tmp_path, upward, **{"low/b": "import joulelab.high\n"})
    assert found == [
        "'gone' has a row in the table and no source",
        "the table lets 'low' import 'high', which is not below it",
    ]


def test_a_circle_of_files_is_found(tmp_path: Path) -> None:
    src = tmp_path / "joulelab"
    src.mkdir()
    (src / "a.py").write_text("from joulelab import b\n", encoding="utf-8")
    (src / "b.py").write_text("from joulelab.a import A\n", encoding="utf-8")
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter(file_graph(src)).prepare()


def test_a_long_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("x = 1\n" * 401, encoding="utf-8")
    assert long_files(tmp_path, {}) == ["src/a.py has 401 lines"]
    assert long_files(tmp_path, {"src/a.py": "generated", "src/b.py": "gone"}) == ["src/b.py needs no entry"]


if __name__ == "__main__":
    rows = read_table((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    sys.stdout.write("".join(f"{line}\n" for line in complaints(rows, read_sources(SRC))))
