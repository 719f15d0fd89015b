"""Where answers go: a full disk, a closed stream and a reader that has seen enough are no bugs of ours."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tenure.errors import IO, USAGE

TENURE = f"{sys.executable} -c 'from tenure.cli import main; main()'"


def shell(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("arguments", ["sql why", "--help"])
def test_a_full_disk_is_one_sentence(arguments: str) -> None:
    answer = shell(f"{TENURE} {arguments} > /dev/full")
    assert answer.returncode == IO
    assert answer.stderr == "tenure: the answer could not be written: No space left on device\n"


def test_a_closed_stream_leads_nowhere() -> None:
    answer = shell(f"{TENURE} sql why >&- 2>&- <&-")
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")


def test_a_reader_that_has_seen_enough_is_no_trouble() -> None:
    answer = shell(f"{TENURE} sql why | true; echo ${{PIPESTATUS[0]}}")
    assert (answer.stdout, answer.stderr) == ("0\n", "")


def test_a_command_that_is_mistyped_is_answered_with_the_nearest() -> None:
    answer = shell(f"{TENURE} redriv kind:a")
    assert answer.returncode == USAGE
    assert "there is no command 'redriv': did you mean redrive?" in answer.stderr
