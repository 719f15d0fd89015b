"""What an error means to a loop: a matrix of SQLSTATEs, and the errors that have none."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.errors import lookup

from tenure.errors import IdempotencyConflict, ServerBehind, WorkerEvicted
from tenure.postgres.sqlstates import Trouble, trouble_of

AWAY = (
    "08000 08001 08003 08004 08006 08P01 25006 25P03 28000 28P01 53100 53200 53300 57P01 57P02 57P03 57P05 58030 26000"
)
AGAIN = "40001 40P01 55P03 57014"
BUG = "0A000 21000 22003 22P02 22P05 23505 23514 25001 25P02 42501 42601 42P01 42P05 54000 54001 55000 XX000"
MATRIX: dict[Trouble, str] = {"away": AWAY, "again": AGAIN, "bug": BUG}


@pytest.mark.parametrize(("meant", "state"), [(meant, state) for meant, all in MATRIX.items() for state in all.split()])
def test_every_state_means_one_of_three_things(meant: Trouble, state: str) -> None:
    assert trouble_of(lookup(state)("as psycopg raises it")) == meant


@pytest.mark.parametrize(
    ("meant", "error"),
    [
        ("away", psycopg.OperationalError("server closed the connection unexpectedly")),
        ("away", psycopg.errors.ConnectionTimeout("connection timeout expired")),
        ("away", ServerBehind("epoch 9 was seen elsewhere")),
        ("bug", psycopg.InterfaceError("the cursor is closed")),
        ("bug", psycopg.ProgrammingError("the query has 1 placeholder")),
        ("bug", WorkerEvicted("A")),
        ("bug", IdempotencyConflict("k", 1)),
        ("bug", ValueError("no error of a database")),
    ],
)
def test_errors_without_a_state_are_judged_by_their_kind(meant: Trouble, error: Exception) -> None:
    assert trouble_of(error) == meant
