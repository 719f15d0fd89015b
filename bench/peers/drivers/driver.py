"""What every driver in Python shares: `python driver.py peer_NAME setup|one|many|worker URL …`, answers as JSON.

A driver has setup(url), one(url, kind, ks) and many(url, kind, ks), which are generators, and worker(url, best). A
generator yields once when it is connected, then after each row that is committed (one) or once when all are (many).
Three kinds of work: `nothing` is counted, `tell` says when it began, `hang` says so and stays.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import sys
import threading
import time

FOLDER = os.environ.get("BENCH_FOLDER", ".")
HANG_SECONDS = 900
_done = []  # appending is safe from many threads
_telling = threading.Lock()
_told_by = None


def fields(k):
    """The payload, about a hundred bytes."""
    return {"k": k, "email": "someone@example.com", "note": "x" * 60}


def count():
    """One more was done by this process; a thread writes the sum to a file now and then."""
    global _told_by
    _done.append(None)
    if _told_by is None:
        with _telling:
            if _told_by is None:
                _told_by = threading.Thread(target=_tell_count, daemon=True)
                _told_by.start()


def _tell_count():
    path = os.path.join(FOLDER, f"count-{os.getpid()}")
    while True:
        with open(path + ".new", "w") as file:
            file.write(str(len(_done)))
        os.replace(path + ".new", path)
        time.sleep(0.05)


def began(name, k):
    """This one has begun, now."""
    at = time.monotonic()
    with open(os.path.join(FOLDER, name), "a") as file:
        file.write(f"{k} {at}\n")


def do(kind, k):
    """The work of a plain function."""
    if kind == "nothing":
        count()
    elif kind == "tell":
        began("starts", k)
    else:
        began("hangs", k)
        time.sleep(HANG_SECONDS)


async def do_async(kind, k):
    """The work of a coroutine."""
    if kind == "hang":
        began("hangs", k)
        await asyncio.sleep(HANG_SECONDS)
    else:
        do(kind, k)


async def _driven(generator, pace):
    """When it was ready, and when each row was committed."""
    await anext(generator)
    ready, sent = time.monotonic(), []
    async for k in generator:
        sent.append((k, time.monotonic()))
        if pace:
            await asyncio.sleep(pace)
    return {"ready": ready, "sent": sent}


def _driven_plainly(generator, pace):
    next(generator)
    ready, sent = time.monotonic(), []
    for k in generator:
        sent.append((k, time.monotonic()))
        if pace:
            time.sleep(pace)
    return {"ready": ready, "sent": sent}


def main(peer, command, url, *rest):
    """One command of one driver."""
    driver = importlib.import_module(peer)
    if command == "setup":
        answer = driver.setup(url)
        if inspect.isawaitable(answer):
            asyncio.run(answer)
    elif command == "worker":
        answer = driver.worker(url, rest[0] == "best")
        if inspect.isawaitable(answer):
            asyncio.run(answer)
    else:
        kind, first, rows, pace = rest[0], int(rest[1]), int(rest[2]), float(rest[3])
        generator = getattr(driver, command)(url, kind, range(first, first + rows))
        if inspect.isasyncgen(generator):
            answer = asyncio.run(_driven(generator, pace))
        else:
            answer = _driven_plainly(generator, pace)
        print(json.dumps(answer))


if __name__ == "__main__":
    sys.modules["driver"] = sys.modules["__main__"]
    main(*sys.argv[1:])
