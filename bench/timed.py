"""The application of bench.apps whose worker keeps the time of every claim, in a ledger file of one line each."""

from __future__ import annotations

import os
import time
from typing import Any

from tenure import postgres
from tenure.worker import claimer

from .apps import quick as quick

_ledger = open(os.environ["BENCH_CLAIMS"], "w", buffering=1)  # noqa: SIM115


def _run(conn: Any, statement: Any) -> Any:
    began = time.monotonic()
    answer = postgres.run(conn, statement)
    _keep(statement, answer, began)
    return answer


def _run_both(conn: Any, first: Any, second: Any) -> Any:
    began = time.monotonic()
    answers = postgres.run_both(conn, first, second)
    _keep(second, answers[1], began)
    return answers


def _keep(statement: Any, answer: Any, began: float) -> None:
    if statement.name.startswith("claim") and answer:
        _ledger.write(f"{began} {time.monotonic() - began} {len(answer)}\n")


vars(claimer).update(run=_run, run_both=_run_both)
