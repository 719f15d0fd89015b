"""What operators may do, one entry each: commands, HTTP routes, roles, bulk actions and the dashboard read this table.

A new verb is an entry here, its SQL file, and the function in verbs/ that makes its statement.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

Role = Literal["read", "operate", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
Asks = Literal["never", "on a click", "always"]


class OperatorVerb(NamedTuple):
    """One thing an operator may do.

    `does` is one sentence: the help of its command, its summary over HTTP and what the dashboard asks about. Up to the
    first semicolon it stands alone, in the list of commands.
    """

    name: str
    on: Literal["rows", "queue", "key", "worker", "schedule"]  # rows by a filter, all others by name
    role: Role
    does: str
    past: str  # what was done to it, after "were" or "is"
    command: str  # after `tenure`
    statement: str  # its SQL, and the function in verbs/ that makes it
    button: str  # on the dashboard
    asks: Asks = "always"  # a typed command names its one target; a click may slip
    grave: bool = False  # it cannot be taken back
    statuses: tuple[str, ...] = ()  # of the rows it takes
    waits: bool = False  # for rows that somebody has locked; the others pass them over
    told: bool = False  # the reason is written to the row as well

    @property
    def brief(self) -> str:
        """The same for a list: "bring failed rows and dead letters back with fresh attempts"."""
        head = self.does.partition(";")[0].rstrip(".")
        return head[0].lower() + head[1:]

    @property
    def audited(self) -> str:
        """What the audit calls it."""
        return self.name if self.on == "rows" else self.statement


OPERATOR_VERBS = {
    verb.name: verb
    for verb in (
        OperatorVerb(
            "redrive",
            on="rows",
            role="operate",
            does="Bring failed rows and dead letters back with fresh attempts; they are due at once.",
            past="redriven",
            command="redrive",
            statement="redrive",
            button="Redrive",
            statuses=("failed", "dead_letter"),
            waits=True,
        ),
        OperatorVerb(
            "retry",
            on="rows",
            role="operate",
            does="Let rows that wait for their time run now; be it a backoff or a date.",
            past="made to run now",
            command="retry",
            statement="retry_now",
            button="Retry now",
            statuses=("scheduled",),
        ),
        OperatorVerb(
            "release",
            on="rows",
            role="operate",
            does="Take held rows from their holders, to run again now; what a holder still writes is refused, and it "
            "costs no attempt.",
            past="released",
            command="release",
            statement="release_held",
            button="Release",
            statuses=("processing",),
            told=True,
        ),
        OperatorVerb(
            "cancel",
            on="rows",
            role="operate",
            does="End pending rows as cancelled, ask the holders of running ones to stop; they run no more.",
            past="cancelled",
            command="cancel",
            statement="cancel",
            button="Cancel",
            grave=True,
            statuses=("pending", "processing"),
            waits=True,
            told=True,
        ),
        OperatorVerb(
            "delete",
            on="rows",
            role="admin",
            does="Remove rows for good that nobody holds; their attempts and effects go with them, an ordered key goes "
            "on with its next row, and idempotency keys stay until retention forgets them.",
            past="deleted",
            command="delete",
            statement="delete",
            button="Delete",
            grave=True,
            statuses=("pending", "completed", "failed", "dead_letter", "cancelled"),
        ),
        OperatorVerb(
            "pause_queue",
            on="queue",
            role="operate",
            does="Let nothing more of a queue start; what runs goes on.",
            past="paused",
            command="queues pause",
            statement="pause",
            button="Pause",
            asks="never",
        ),
        OperatorVerb(
            "resume_queue",
            on="queue",
            role="operate",
            does="Let a paused queue go on.",
            past="resumed",
            command="queues resume",
            statement="resume",
            button="Resume",
            asks="never",
        ),
        OperatorVerb(
            "limit_queue",
            on="queue",
            role="operate",
            does="Limit a queue across all workers; a lowered limit stops nothing that runs.",
            past="limited",
            command="queues limit",
            statement="limit",
            button="Save",
            asks="never",
        ),
        OperatorVerb(
            "drain_worker",
            on="worker",
            role="operate",
            does="Ask a living worker to claim nothing more, to finish what it holds, and to exit; whatever starts "
            "workers may start another.",
            past="drained",
            command="workers drain",
            statement="drain_worker",
            button="Drain",
            asks="on a click",
        ),
        OperatorVerb(
            "pause_schedule",
            on="schedule",
            role="operate",
            does="Let a schedule enqueue nothing until it is resumed; what comes due meanwhile is missed.",
            past="paused",
            command="schedules pause",
            statement="pause_schedule",
            button="Pause",
            asks="never",
        ),
        OperatorVerb(
            "resume_schedule",
            on="schedule",
            role="operate",
            does="Let a paused schedule go on; its misfire policy decides about the ticks it missed.",
            past="resumed",
            command="schedules resume",
            statement="resume_schedule",
            button="Resume",
            asks="never",
        ),
        OperatorVerb(
            "remove_schedule",
            on="schedule",
            role="admin",
            does="Remove a schedule; it comes back with the next worker whose inbox has it, so take it out of the code "
            "first.",
            past="removed",
            command="schedules remove",
            statement="unplan",
            button="Remove",
            grave=True,
        ),
        OperatorVerb(
            "free_key",
            on="key",
            role="operate",
            does="Let an ordered key go on that waits for an operator; its head stays as it ended, and the rows behind "
            "it may run.",
            past="freed",
            command="queues free",
            statement="free_key",
            button="Free the key",
            asks="on a click",
        ),
    )
}
ON_ROWS = {name: verb for name, verb in OPERATOR_VERBS.items() if verb.on == "rows"}
