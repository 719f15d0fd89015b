"""A slice of `make mutants` in every run: three guards of the heart of it, taken out, must be missed by some test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import servers

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize("server_url", servers.available()[:1], indirect=True)
def test_three_guards_taken_out_of_claim_complete_and_end_attempts_are_missed(server_url: str) -> None:
    run = subprocess.run(
        [
            sys.executable,
            "mutants/run.py",
            "--quick",
            "3",
            "--seed",
            "12",
            "--statements",
            "claim,complete,end_attempts",
        ],
        cwd=ROOT,
        env={**os.environ, "TENURE_TEST_DATABASE_URL": server_url},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("killed ") >= 3, run.stdout
