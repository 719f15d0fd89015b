"""A type checker knows what a handler is sent with: name, type and number of its fields, and whose connection it is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MISTAKES = HERE / "mistakes.py"
TYPED = [folder for folder in (ROOT / "examples").iterdir() if folder.name != "django_shop"]  # Django has no types
EXAMPLES = sorted(path for folder in TYPED for path in folder.rglob("*.py"))
Found = set[tuple[str, int]]


def _wrong() -> Found:
    lines = enumerate(MISTAKES.read_text(encoding="utf-8").splitlines(), 1)
    return {("mistakes.py", n) for n, line in lines if "# wrong:" in line}


def _mypy(folder: Path) -> tuple[Found, str]:
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context"]
    config = ["--config-file", "", "--ignore-missing-imports", "--follow-imports=silent", "--cache-dir", str(folder)]
    modules = ["--explicit-package-bases", *map(str, [MISTAKES, *EXAMPLES])]
    told = subprocess.run([*command, *config, *modules], capture_output=True, text=True, check=False, cwd=ROOT)
    lines = [line.split(":", 3) for line in told.stdout.splitlines() if ": error:" in line]
    return {(Path(line[0]).name, int(line[1])) for line in lines}, told.stdout + told.stderr


def _pyright(folder: Path) -> tuple[Found, str]:
    settings = {
        "include": [str(path) for path in (MISTAKES, *EXAMPLES)],
        "extraPaths": [str(ROOT / "src")],
        "typeCheckingMode": "standard",
        "pythonVersion": "3.11",
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    python = ["--pythonpath", sys.executable]
    command = [sys.executable, "-m", "basedpyright", "-p", str(folder), "--outputjson", *python]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    errors = [each for each in json.loads(told.stdout)["generalDiagnostics"] if each["severity"] == "error"]
    found = {(Path(each["file"]).name, each["range"]["start"]["line"] + 1) for each in errors}
    return found, "\n".join(
        f"{each['file']}:{each['range']['start']['line'] + 1}: {each['message']}" for each in errors
    )


@pytest.mark.parametrize("check", [_mypy, _pyright], ids=["mypy", "pyright"])
def test_a_type_checker_finds_every_mistake_and_none_in_the_examples(check: object, tmp_path: Path) -> None:
    assert len(_wrong()) >= 20
    assert EXAMPLES
    assert callable(check)
    found, told = check(tmp_path)
    assert found == _wrong(), told
