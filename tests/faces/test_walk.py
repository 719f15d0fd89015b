"""README.md and the first guide, followed word for word: by a reader with an empty home, and in a fresh clone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from faces.walk import Walk
from pages import ROOT, blocks
from patience import SECONDS_MAX
from tenure import __version__

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ends processes as Linux does")
README, START = ROOT / "README.md", ROOT / "docs/guides/start.md"


def read_readme(walk: Walk, folder: Path, leave: tuple[str, ...] = ()) -> list[str]:
    """Follow the front page; its twelve lines are shop.py, and the row that it shows is one of them."""
    (folder / "shop.py").write_text(blocks(README.read_text(), "python")[0])
    walk.row = ""
    typed = walk.follow(README, leave=(*leave, "tenure why"))
    sent = walk.run("tenure enqueue send_receipt '{\"order_id\": 9182}' --json")
    (walk.row,) = re.findall(r"[0-9a-f-]{36}", sent.stdout)
    told = walk.run(f"tenure why {walk.row}")
    assert (told.returncode, len(told.stdout.splitlines())) == (0, 1), told.stderr
    walk.leave()
    return typed


def read_start(walk: Walk, leave: tuple[str, ...] = ()) -> list[str]:
    """Follow the guide; its folder has as many files as it says."""
    typed = walk.follow(START, leave)
    (said,) = re.findall(r"# (\d+) files", START.read_text())
    listed = walk.run("tenure new --list --name shop").stdout.splitlines()
    assert len(listed) == int(said)
    assert not [line for line in listed if not (walk.here / line.split()[0]).exists()]
    walk.leave()
    return typed


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def walk(tmp_path: Path, home: Path) -> Iterator[Walk]:
    """A reader who has what is installed here."""
    folder = tmp_path / "reader"
    folder.mkdir()
    walk = Walk(folder, home, Path(sys.executable).parent)
    yield walk
    walk.kill()


def test_the_front_page_is_followed_word_for_word(walk: Walk) -> None:
    typed = read_readme(walk, walk.start, leave=("make", "pip"))
    assert {" ".join(line.split()[:2]) for line in typed} == {
        *("tenure dev", "tenure worker", "tenure new", "tenure serve", "tenure rows", "tenure redrive"),
        *("tenure doctor", "tenure migrate"),
    }


def test_the_first_guide_is_followed_word_for_word(walk: Walk) -> None:
    typed = read_start(walk, leave=("pip", "python -m pytest"))  # test_new runs the test that it writes
    assert [line.split("  #")[0].strip() for line in typed] == [
        *("tenure new shop", "cd shop", "tenure dev app:inbox", "python app.py 9182", "python app.py 9182"),
        "tenure pg psql -c 'SELECT * FROM receipts'",
    ]


def test_an_answer_that_is_not_the_shown_one_is_found(walk: Walk, tmp_path: Path) -> None:
    """The control."""
    for wrong in ("$ echo 'order 1'\norder 2\n", "$ false\n", "$ tenure explode\n"):
        page = tmp_path / "page.md"
        page.write_text(f"```console\n{wrong}```\n")
        with pytest.raises(AssertionError):
            walk.follow(page)


# -- in a fresh clone, with nothing installed: `make walk`


def _python() -> str:
    return os.path.realpath(sys.executable)


def _pip_as_before() -> dict[str, str]:
    """Where pip looks and what it has stored, also with an empty home."""
    ask = [sys.executable, "-m", "pip", "cache", "dir"]
    cache = subprocess.run(ask, capture_output=True, text=True, timeout=SECONDS_MAX).stdout.strip()
    own = Path.home() / ".config/pip/pip.conf"
    return {"PIP_CACHE_DIR": cache, **({"PIP_CONFIG_FILE": str(own)} if own.exists() else {})}


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[tuple[Walk, Walk]]:
    """Two terminals of a newcomer: in a clone of this tree, and in an empty environment for its wheel."""
    clone, wheels, own = tmp_path / "clone", tmp_path / "wheels", tmp_path / "venv"
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("this tree is no clone")
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True, timeout=10 * SECONDS_MAX)
    subprocess.run([_python(), "-m", "venv", str(own)], check=True, timeout=10 * SECONDS_MAX)
    (tmp_path / "pins.txt").write_text(f"tenure=={__version__}\n")
    links = f"{os.environ.get('PIP_FIND_LINKS', '')} {wheels}".strip()
    env = {**_pip_as_before(), "PIP_FIND_LINKS": links, "PIP_CONSTRAINT": str(tmp_path / "pins.txt")}
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    in_clone = Walk(clone, tmp_path / "home", clone / ".venv/bin", {**_pip_as_before(), "PYTHON": _python()})
    at_work = Walk(tmp_path / "work", tmp_path / "home", own / "bin", env)
    yield in_clone, at_work
    at_work.kill()


@pytest.mark.timeout(3600)
def test_in_a_fresh_clone_both_are_followed_word_for_word(fresh: tuple[Walk, Walk], tmp_path: Path) -> None:
    in_clone, at_work = fresh
    played = in_clone.follow(README, leave=("tenure", "pip"))
    assert [line.split("  #")[0].strip() for line in played] == ["make demo", "make test", "make test-all"]
    built = in_clone.run(f"hatchling build -t wheel -d {tmp_path / 'wheels'}")
    assert built.returncode == 0, built.stderr
    installed = read_readme(at_work, at_work.start, leave=("make",))
    assert len([line for line in installed if line.startswith("pip install")]) == 4
    assert "pip install -e" in " ".join(read_start(at_work))
    where = at_work.run("python -c 'import tenure; print(tenure.__file__)'").stdout
    assert where.startswith(str(tmp_path / "venv")), "what was followed is the wheel and not this tree"
