"""`tenure` as a process of its own, forked from one that has done the imports: milliseconds instead of half a second.

Exit code, streams, environment and folder are those of a real process. What is about the start itself (imports,
`python -m tenure`, a terminal, signals) starts Python anew.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import pickle
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

from patience import SECONDS_MAX

COLD = [sys.executable, "-c", "from tenure.cli import main; main()"]
AT_START = ("PYTHON", "LC_", "LANG")  # what Python reads once, when it starts
HERE = str(Path(__file__).parent)


class Asked(NamedTuple):
    """What a command is called with."""

    arguments: Sequence[str | bytes]
    env: Mapping[str, str]
    cwd: str


def run(
    *arguments: str | bytes, env: Mapping[str, str] | None = None, cwd: Path | None = None, input: str = ""
) -> subprocess.CompletedProcess[str]:
    """The command with these arguments, once it has ended; stdin is empty unless input is given."""
    asked = Asked(arguments, dict(os.environ if env is None else env), str(cwd or Path.cwd()))
    with contextlib.ExitStack() as stack:
        stdin, stdout, stderr = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        stdin.write(input.encode())
        stdin.seek(0)
        code = (_cold if _is_for_the_start(asked.env) else _warm().run)(asked, stdin, stdout, stderr)
        return subprocess.CompletedProcess(list(arguments), code, _text(stdout), _text(stderr))


def _is_for_the_start(env: Mapping[str, str]) -> bool:
    return any(
        name.startswith(AT_START) and name != "PYTHONPATH" and os.environ.get(name) != value
        for name, value in env.items()
    )


def _cold(asked: Asked, *streams: IO[bytes]) -> int:
    stdin, stdout, stderr = streams
    command = [*COLD, *asked.arguments]
    return subprocess.run(
        command,
        env=asked.env,
        cwd=asked.cwd,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        timeout=SECONDS_MAX,
        check=False,
    ).returncode


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode()


class Warm:
    """The process that has done the imports, seen from the tests."""

    def __init__(self) -> None:
        self.line, far = socket.socketpair()
        self.line.settimeout(SECONDS_MAX)
        code = f"import sys; sys.path.append({HERE!r}); import warm; warm.serve({far.fileno()})"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code], pass_fds=[far.fileno()], cwd="/", start_new_session=True
        )
        far.close()
        atexit.register(self.close)

    def run(self, asked: Asked, *streams: IO[bytes]) -> int:
        """The exit code of one command."""
        said = pickle.dumps(asked)
        socket.send_fds(self.line, [len(said).to_bytes(8, "big")], [stream.fileno() for stream in streams])
        self.line.sendall(said)
        try:
            answer = self.line.recv(8)
        except TimeoutError:
            os.killpg(self.process.pid, signal.SIGKILL)  # with the command that does not end
            _warm.cache_clear()
            raise
        assert answer, "the process that has done the imports is gone"
        return int.from_bytes(answer, "big", signed=True)

    def close(self) -> None:
        """It ends when nobody can ask it any more."""
        self.line.close()
        self.process.wait(SECONDS_MAX)


_warm = cache(Warm)


def serve(number: int) -> None:
    """Fork for each command that is asked for; the child returns from here into the command."""
    import tenure.cli

    for module in pkgutil.iter_modules(tenure.cli.__path__):
        importlib.import_module(f"tenure.cli.{module.name}")
    sys.path.remove(HERE)
    gc.freeze()  # no child looks at what is here already, nor copies it by looking
    line = socket.socket(fileno=number)
    while True:
        length, streams, _, _ = socket.recv_fds(line, 8, 3)
        if not length:
            return
        asked: Asked = pickle.loads(_exactly(line, int.from_bytes(length, "big")))  # noqa: S301 - from the tests
        child = os.fork()
        if child == 0:
            line.close()
            _become(asked, streams)
            _end_with(tenure.cli.main)
        for stream in streams:
            os.close(stream)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        line.sendall(code.to_bytes(8, "big", signed=True))


def _end_with(main: Callable[[], NoReturn]) -> NoReturn:
    """Run it and end as Python does, but for taking every module apart."""
    code: Any = 1
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _exactly(line: socket.socket, length: int) -> bytes:
    found = b""
    while len(found) < length:
        found += line.recv(length - len(found))
    return found


def _become(asked: Asked, streams: Sequence[int]) -> None:
    """Take over what a new process is given."""
    for place, stream in enumerate(streams):
        os.dup2(stream, place)
        os.close(stream)
    os.environ.clear()
    os.environ.update(asked.env)
    os.chdir(asked.cwd)
    sys.argv = ["tenure", *map(os.fsdecode, asked.arguments)]
    sys.path[1:1] = filter(None, asked.env.get("PYTHONPATH", "").split(os.pathsep))
