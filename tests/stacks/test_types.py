"""A type checker knows what a handler is sent with: name, type and number of its fields, and whose connection it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
MISTAKES = HERE / "mistakes.py"


def test_mypy_finds_every_mistake_and_no_other(tmp_path: Path) -> None:
    wrong = {n for n, line in enumerate(MISTAKES.read_text(encoding="utf-8").splitlines(), 1) if "# wrong:" in line}
    assert len(wrong) >= 20
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--hide-error-context",
        "--follow-imports=silent",
    ]
    config = ["--config-file", "", "--ignore-missing-imports", "--cache-dir", str(tmp_path)]
    told = subprocess.run([*command, *config, str(MISTAKES)], capture_output=True, text=True, check=False)
    lines = [line.split(":", 3) for line in told.stdout.splitlines() if ": error:" in line]
    assert {int(line[1]) for line in lines} == wrong, told.stdout + told.stderr
