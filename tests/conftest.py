# SPDX-License-Identifier: Apache-2.0
"""What every test is held to: it leaves no process, thread, variable or file behind."""

from __future__ import annotations

import os
import threading
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fakes.caps import Machine

ROOT = Path(__file__).resolve().parents[1]

# What tools write at the top of the repository while tests run; nothing there belongs to a test.
TOOLS_WRITE = {".venv", ".git", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", "__pycache__"}
# pytest and hypothesis keep their own state in these; torch's compiler names its cache and the way it calls
# its kernels, and polars, once it is loaded, the settings of its allocator.
TOOLS_SET = {
    "PYTEST_CURRENT_TEST",
    "PYTEST_VERSION",
    "COLUMNS",
    "LINES",
    "TORCHINDUCTOR_CACHE_DIR",
    "_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR",
    "_RJEM_MALLOC_CONF",
}

# Inherited by every process that a test starts, so that one that outlives the tests is known by it.
MARK = "JOULELAB_TEST_RUN"
GRACE_S = 3.0

# On a busy machine any example may take a second; that is no finding.
settings.register_profile("joulelab", deadline=None)
settings.load_profile("joulelab")


def children() -> set[int]:
    """The processes that this one has started. Empty where the kernel does not list them."""
    found: set[int] = set()
    for task in Path("/proc/self/task").glob("*/children"):
        try:
            found.update(int(pid) for pid in task.read_text(encoding="ascii").split())
        except OSError:
            continue  # the thread has ended meanwhile
    return found


def marked(mark: str) -> dict[int, str]:
    """Every other process that was started below a test of this run, with its command line."""
    found: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int(folder.name) != os.getpid() and mark.encode() in (folder / "environ").read_bytes():
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                found[int(folder.name)] = words.decode(errors="replace").strip()
        except OSError:
            continue  # it has ended, or belongs to somebody else
    return {pid: words for pid, words in found.items() if words}  # a zombie has no command line


def names_at_root() -> set[str]:
    return {path.name for path in ROOT.iterdir()} - TOOLS_WRITE


def variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in TOOLS_SET}


def lasting_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if not thread.daemon}


def pytest_configure(config: pytest.Config) -> None:
    # What a developer has set for his own runs decides nothing here.
    for name in [name for name in os.environ if name.startswith("JOULELAB_")]:
        del os.environ[name]
    os.environ[MARK] = config.stash[MARK_KEY] = uuid.uuid4().hex
    # The processes that tests start load the sources beside these tests, installed or not.
    paths = [str(ROOT / "src"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(path for path in paths if path))


MARK_KEY = pytest.StashKey[str]()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if getattr(session.config.option, "numprocesses", None):
        return  # the controller of pytest-xdist runs no test: its workers look for themselves
    mark = f"{MARK}={session.config.stash[MARK_KEY]}"
    until = time.monotonic() + GRACE_S
    while (left := marked(mark)) and time.monotonic() < until:
        time.sleep(0.05)
    if left:
        said = f"processes that outlived the tests: {left}"
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None:
            raise RuntimeError(said)  # in a worker of pytest-xdist this is the one way to be heard
        reporter.write_line(f"\n{said}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    before = (children(), lasting_threads(), variables(), names_at_root(), Path.cwd())
    yield
    until = time.monotonic() + GRACE_S
    # A process that was told to end, or a thread that is at its last line, is given a moment.
    while (left := (children() - before[0], lasting_threads() - before[1])) != (set(), set()):
        if time.monotonic() > until:
            break
        time.sleep(0.01)
    assert not left[0], f"child processes left behind: {left[0]}"
    assert not left[1], f"threads left behind: {left[1]}"
    changed = {name for name, _ in variables().items() ^ before[2].items()}
    assert not changed, f"environment changed: {sorted(changed)}"
    assert Path.cwd() == before[4], f"left in folder {Path.cwd()}"
    assert not (new := names_at_root() - before[3]), f"files left at the top of the repository: {sorted(new)}"


@pytest.fixture
def weird_tmp_path(tmp_path: Path) -> Path:
    """A folder with a name that breaks careless quoting."""
    folder = tmp_path / 'it\'s a "weird" földer, 100 % of $HOME'
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def cap_libraries(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    # Not at the top: these checks also stand alone, in a repository that has no stand-ins.
    from tests.fakes.caps import libraries

    return libraries(tmp_path_factory.mktemp("caps"))


@pytest.fixture
def machine(
    cap_libraries: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Machine]:
    """Two boards and two packages, seen by this process and by those it starts."""
    import pynvml

    from tests.fakes.caps import Machine

    library, shim = cap_libraries
    made = Machine.make(tmp_path / "machine", nvml_library=library, shim=shim)
    # The shim is not loaded into this process: what it writes to the made-up files is not in their log.
    for name, value in made.environment().items():
        if name.startswith(("FAKENVML", "JOULELAB")):
            monkeypatch.setenv(name, value)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    # The binding remembers its library and the functions in it for as long as the process lives.
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    yield made
    lib = pynvml.nvmlLib
    still_open = lib is not None and lib.nvmlShutdown() == 0
    while lib is not None and lib.nvmlShutdown() == 0:
        pass
    assert not still_open, "a test left a device open"
