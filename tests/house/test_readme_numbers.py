"""Numbers that README says in words are true."""

from __future__ import annotations

import re
from pathlib import Path

from tenure.drills.scenes.book import BOOK

README = Path(__file__).parents[2] / "README.md"
WORDS = ["ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]


def test_there_are_as_many_drills_as_the_front_page_says() -> None:
    (said,) = re.findall(r"There are (\w+) drills", README.read_text())
    assert WORDS.index(said) + 10 == len(BOOK)
