"""Many rows from a file of JSON lines: read, checked and sent in batches; each is written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

import click
from psycopg import Connection

from .. import postgres, verbs
from ..console.terminal import echo
from ..errors import INTERRUPTED, InvalidPayload
from ..model.rows import NewRow

BATCH = 500
Line = tuple[int, bytes]


def send(conn: Connection[Any], schema: str, file: IO[bytes], make: Callable[[int, str], NewRow]) -> Counter[str]:
    """Enqueue a row for each line that is not empty; the number of rows by outcome.

    A line that cannot be sent raises InvalidPayload with its number and the number of rows sent before it.
    """
    outcomes: Counter[str] = Counter()
    try:
        with _bar(file) as advance:
            for lines in _batches(file):
                rows = [_row(line, make, outcomes.total()) for line in lines if line[1].strip()]
                if rows:
                    outcomes.update(each.outcome for each in postgres.run(conn, verbs.enqueue_many(rows), schema))
                advance(sum(len(text) for _, text in lines))
    except KeyboardInterrupt:
        said = f"{outcomes.total():,} rows were sent, and all or none of the next {BATCH}"
        echo(f"interrupted: {said}", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    return outcomes


def _batches(file: Iterable[bytes]) -> Iterator[list[Line]]:
    """The lines with their numbers, some at a time."""
    lines: list[Line] = []
    for line in enumerate(file, 1):
        lines.append(line)
        if len(lines) == BATCH:
            yield lines
            lines = []
    yield lines


def _row(line: Line, make: Callable[[int, str], NewRow], before: int) -> NewRow:
    n, text = line
    try:
        row = make(n, text.decode())
        verbs.enqueue_many([row])  # checks it
        return row
    except (UnicodeDecodeError, InvalidPayload) as error:
        why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else error
        raise InvalidPayload(f"line {n}: {why} ({before} rows of the lines before it were sent)") from None


@contextlib.contextmanager
def _bar(file: IO[bytes]) -> Iterator[Callable[[int], None]]:
    """A progress bar over the bytes of a file, if stderr is a terminal and the file has a size."""
    if size := _size(file):
        with click.progressbar(length=size, label="enqueue", file=sys.stderr) as bar:
            yield bar.update
    else:
        yield lambda _bytes: None


def _size(file: IO[bytes]) -> int:
    with contextlib.suppress(OSError):
        return os.fstat(file.fileno()).st_size if sys.stderr.isatty() else 0
    return 0
