"""The output of the demo: lines about events, and on a terminal a foot below them that is redrawn in place."""

from __future__ import annotations

import os
import shutil
import sys
import threading

from ..console.terminal import echo, shown, styled
from ..drills.stage.picture import bare
from ..drills.stage.said import Said
from ..drills.stage.stage import Stage
from .event_lines import FLEET, ROW, STEPS, Words

ROWS_MAX = 5_000  # whose keys are remembered
CLEAR = "\r\x1b[2K"
HELD = """
SELECT partition_key || ' token ' || lease_generation FROM tenure.live
WHERE status = 'processing' AND claimed_by LIKE %s ORDER BY partition_key = %s DESC, id LIMIT 100"""
NUMBERS = """
SELECT count(*) FILTER (WHERE status = 'completed'), count(*) FILTER (WHERE status = 'processing'),
       count(*) FILTER (WHERE status = 'dead_letter'),
       COALESCE(extract(epoch FROM clock_timestamp() - min(available_at) FILTER (WHERE status = 'pending')), 0)::float8
FROM tenure.inbox"""


class Show:
    """Prints the events that get a line; with `about`, of rows only those of this key, and all of them."""

    def __init__(self, *, footed: bool) -> None:
        self.stage: Stage | None = None
        self.about = ""
        self._footed, self._foot = footed, ""
        self._lock = threading.Lock()  # the dashboard's thread prints lines, too
        self._keys: dict[str, str] = {}
        self._seen: dict[str, str] = {}  # of each worker, what the others reported of it last
        self._away: set[str] = set()  # the workers that have reported the database as unreachable

    def told(self, said: Said) -> None:
        """Print one event of the stage, if it gets a line; nothing is printed before the shop is open."""
        if self.stage is None:
            return
        if said.event == "step":
            self.line(f"     {said.fields['caption']}")
        key = self._key_of(said)
        words = self._words(said, key)
        if words is None:
            return
        when = styled(clock(said.at), dim=True)
        what = styled(f"{words.what:<20}", fg=words.colour, bold=words.colour is not None or None)
        self.line(f"  {when}  {words.who or said.who:<8}  {what}  {f'{key:<11}' if key else ''}{words.rest}".rstrip())

    def head(self, n: int, title: str, about: str) -> None:
        """A new chapter, about the row of this key."""
        self.about = about
        self.line()
        self.line(styled(f"  {n}  {title}", bold=True))

    def line(self, text: str = "") -> None:
        """Print a line above the foot; from any thread."""
        with self._lock:
            if self._footed:
                _write(CLEAR)
            echo(text)
            self._draw()

    def foot(self) -> None:
        """Redraw the foot, from the database."""
        if self._footed and self.stage:
            foot = f"{clock(self.stage.seconds)}  ● {_numbers(self.stage)}"
            with self._lock:
                self._foot = foot
                self._draw()

    def end(self) -> None:
        """No foot from here on; what it showed last stays."""
        if self._footed and self._foot:
            echo()
        self._footed = False

    def _draw(self) -> None:
        if self._footed and self._foot:
            text = f"  {self._foot}"[: shutil.get_terminal_size().columns - 1]
            dot = "●" if os.environ.get("NO_COLOR") else styled("●", fg="green")
            _write(CLEAR + shown(text.replace("●", dot)))

    def _key_of(self, said: Said) -> str:
        """The key of the row that the event is about, "" if it is about none."""
        row = said.fields.get("job_id")
        if row is None:
            return ""
        if "key" in said.fields:
            self._keys[str(row)] = said.fields["key"]
            if len(self._keys) > ROWS_MAX:
                del self._keys[next(iter(self._keys))]
        return self._keys.get(str(row), "")

    def _words(self, said: Said, key: str) -> Words | None:
        fields = said.fields
        if said.event in FLEET:
            return None if self._is_known(said) else FLEET[said.event]({**fields, "held": self._held_by(said)})
        if self.about and key != self.about:
            return None
        if said.event in ROW:
            return ROW[said.event](fields)
        if said.event in STEPS and (self.about or fields.get("token", 1) > 1):
            return STEPS[said.event](fields)
        return None

    def _is_known(self, said: Said) -> bool:
        """Whether another worker, or another thread of the same one, has reported it before."""
        if said.event == "worker_seen":
            name, seen = str(bare(said.fields["other"])), str(said.fields["seen"])
            before, self._seen[name] = self._seen.get(name), seen
            return before == seen
        away = said.who in self._away
        if said.event == "database_unreachable":
            self._away.add(said.who)
            return away
        if said.event == "database_back":
            self._away.discard(said.who)
            return not away
        return False

    def _held_by(self, said: Said) -> str:
        """What a worker held when it was killed or paused."""
        if self.stage is None or said.event not in ("worker_killed", "worker_paused"):
            return ""
        rows = [row for (row,) in self.stage.sql(HELD, f"{said.fields['worker']}-%", self.about)]
        return f"{rows[0]} and {len(rows) - 1} more" if len(rows) > 1 else "".join(rows)


def clock(seconds: float) -> str:
    """As 00:19."""
    return f"{int(seconds) // 60:02}:{int(seconds) % 60:02}"


def _numbers(stage: Stage) -> str:
    ((completed, processing, dead_letters, oldest),) = stage.sql(NUMBERS)
    states = [actor.state for actor in stage.actors.values()]
    paused = f" ({states.count('paused')} paused)" if "paused" in states else ""
    return (
        f"{completed} completed · {processing} processing · {dead_letters} dead letters"
        f" · oldest {max(0.0, oldest):.1f} s · {len(states) - states.count('gone')} workers{paused}"
    )


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
