"""The keys of the demo: each does one thing to the shop or its workers, at once and for real."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ..drills.stage.actor import State
from ..drills.stage.acts import Act, Cut, Drain, Enqueue, Heal, Kill, Pause, Resume, Start
from ..drills.stage.picture import bare
from ..drills.stage.stage import Stage
from ..errors import TenureError
from .show import Show
from .till import Till

QUIT = "q"
LEGEND = """\
  k kill a worker  p pause one   r resume it      a add one      d drain one
  s same order again             x poison row     c cut or heal the database
  ? these keys                   q quit"""
LOG_MAX = 20_000
HOLDERS = """
SELECT claimed_by FROM tenure.live WHERE status = 'processing' AND lease_expires_at > clock_timestamp()
ORDER BY lease_expires_at DESC LIMIT 100"""


class Keys:
    """What a key does."""

    def __init__(self, stage: Stage, till: Till) -> None:
        self._stage, self._till, self._cut = stage, till, False
        self._acts: dict[str, Callable[[], Act | str]] = {
            "k": lambda: self._to(Kill, "running", "draining", "paused"),
            "p": lambda: self._to(Pause, "running", "draining"),
            "r": lambda: self._to(Resume, "paused"),
            "a": Start,
            "d": lambda: self._to(Drain, "running"),
            "s": lambda: Enqueue(till.last) if till.last else "no order was taken yet",
            "x": lambda: Enqueue(till.next(), "poison"),
            "c": self._cut_or_heal,
        }

    def press(self, key: str) -> None:
        """Do it, or say on the stage why not; any other key does nothing."""
        if key not in self._acts:
            return
        act = self._acts[key]()
        try:
            if isinstance(act, Act):
                act.do(self._stage)
            else:
                self._stage.say("demo", "refused", why=act)
        except TenureError as refused:
            self._stage.say("demo", "refused", why=str(refused))

    def _to(self, act: type[Kill | Pause | Resume | Drain], *states: State) -> Act | str:
        """The act on a worker in one of these states; one that holds a row comes first, as it shows more."""
        fit = [actor.name for state in states for actor in self._stage.actors.values() if actor.state == state]
        holders = [bare(worker) for (worker,) in self._stage.sql(HOLDERS)]
        fit.sort(key=lambda name: name not in holders)
        word = states[0] if act is Resume else "there"
        return act(fit[0]) if fit else f"no worker is {word}: press {'p' if act is Resume else 'a'} first"

    def _cut_or_heal(self) -> Act:
        self._cut = not self._cut
        return Cut() if self._cut else Heal()


def play(stage: Stage, till: Till, show: Show) -> None:
    """Until q: do what the keys say, and print what the workers report."""
    keys = Keys(stage, till)
    show.line("\n" + LEGEND + "\n")
    with terminal() as pressed:
        while (key := pressed()) != QUIT:
            if key == "?":
                show.line(LEGEND)
            keys.press(key)
            stage.hear()
            if len(stage.log) > LOG_MAX:
                del stage.log[: LOG_MAX // 2]  # nobody needs lines that old


@contextmanager
def terminal() -> Iterator[Callable[[], str]]:
    """A function that gives the key that was pressed, "" for none; the terminal is restored at the end."""
    import termios
    import tty

    stream = sys.stdin.fileno()
    before = termios.tcgetattr(stream)
    try:
        tty.setcbreak(stream)
        yield lambda: _key(stream)
    finally:
        with suppress(termios.error):  # it may be closed by now
            termios.tcsetattr(stream, termios.TCSADRAIN, before)


def _key(stream: int) -> str:
    """The key that was pressed; a closed terminal counts as q."""
    if not select.select([stream], [], [], 0)[0]:
        return ""
    try:
        return os.read(stream, 1).decode("latin-1") or QUIT
    except OSError:
        return QUIT
