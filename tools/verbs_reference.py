"""Write docs/reference/verbs.md from the headers of the SQL files, so that the reference cannot drift from them."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

from tenure import sql

PAGE = Path(__file__).parent.parent / "docs/reference/verbs.md"


def page() -> str:
    """The whole reference."""
    parts = [
        "# Verbs and questions",
        "",
        "Made by `make docs` from the headers in `src/tenure/sql`; `tenure sql NAME` prints a file.",
    ]
    for room, title in (
        ("verbs", "Verbs: what changes a row"),
        ("questions", "Questions: what people and workers ask"),
    ):
        parts += ["", f"## {title}"]
        for name in sql.names(room):
            parts += ["", *_entry(sql.text(name))]
    return "\n".join([*parts, ""])


def _entry(text: str) -> list[str]:
    header = [line.removeprefix("-- ") for line in takewhile(lambda line: line.startswith("-- "), text.splitlines())]
    name, sentence = header[0].split(": ", 1)
    lines = [f"### {name}", "", _sentence(sentence)]
    why: list[str] = []
    for line in header[1:]:
        key, _, rest = line.partition(": ")
        if key in ("in", "out"):
            lines += ["", f"{key}: `{rest}`"]
        else:
            why.append(rest if key == "why" else line)
    return [*lines, "", _sentence(" ".join(why))] if why else lines


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:].removesuffix(".").removesuffix("?") + ("?" if text.endswith("?") else ".")


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
