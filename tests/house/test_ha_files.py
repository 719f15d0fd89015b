"""The guide to high availability shows the files of deploy/ha as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs/guides/ha.md").read_text()


@pytest.mark.parametrize("file", sorted((ROOT / "deploy/ha").iterdir()), ids=lambda path: path.name)
def test_the_guide_shows_the_file_whole_and_links_it(file: Path) -> None:
    assert f"\n{file.read_text()}```" in GUIDE
    assert f"](../../deploy/ha/{file.name})" in GUIDE
