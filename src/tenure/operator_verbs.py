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
    on: Literal[
        "rows", "queue", "key", "worker", "schedule", "projection", "flow", "endpoint"
    ]  # rows by a filter, all others by name
    role: Role
    does: str
    past: str  # "5 rows redriven"
    command: str  # after `tenure`
    statement: str  # its SQL, and the function in verbs/ that makes it
    button: str  # on the dashboard
    asks: Asks = "always"  # before it acts; a command that names one target need not ask, a click may be a slip
    grave: bool = False  # it cannot be undone
    statuses: tuple[str, ...] = ()  # of the rows it takes
    waits: bool = False  # for rows that another session has locked; other verbs skip them
    told: bool = False  # the reason is written to the row too
    private: bool = False  # the audit does not keep the values it was asked with

    @property
    def brief(self) -> str:
        """The same for a list: "bring failed rows and dead letters back with fresh attempts"."""
        head = self.does.partition(";")[0].rstrip(".")
        return head[0].lower() + head[1:]

    @property
    def audited(self) -> str:
        """What the audit calls it."""
        return self.name if self.on in ("rows", "endpoint") else self.statement


OPERATOR_VERBS = {
    verb.name: verb
    for verb in (
        OperatorVerb(
            "redrive",
            on="rows",
            role="operate",
            does="Bring failed rows and dead letters back with fresh attempts; they are due at once, and a flow "
            "tries again what failed, goes on undoing, or begins again if it was undone.",
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
            does="Make scheduled rows due now; it does not matter whether they wait for a backoff or for a date.",
            past="made due now",
            command="retry",
            statement="retry_now",
            button="Retry now",
            statuses=("scheduled",),
        ),
        OperatorVerb(
            "release",
            on="rows",
            role="operate",
            does="Take rows from the workers that hold them and make them due now; later writes of those workers are "
            "refused, and no attempt is used up.",
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
            does="Cancel pending rows, and ask the workers that hold processing rows to stop; they do not run again, "
            "but for a flow that has begun, which undoes what it did; flow cancel has a dead letter do so.",
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
            does="Delete rows that nobody holds; their attempts and effects are deleted too, an ordered key goes on "
            "with its next row, idempotency keys stay until retention deletes them, and a flow that has begun is left "
            "until what it did is undone: flow cancel undoes it, erase does not.",
            past="deleted",
            command="delete",
            statement="delete",
            button="Delete",
            grave=True,
            statuses=("pending", "completed", "failed", "dead_letter", "cancelled"),
        ),
        OperatorVerb(
            "erase",
            on="rows",
            role="admin",
            does="Erase rows that nobody holds with all that is known of them; their attempts, effects and idempotency "
            "keys go too, so that a late duplicate is a new row, and the audit keeps no key or content of the filter.",
            past="erased",
            command="erase",
            statement="erase",
            button="Erase",
            grave=True,
            statuses=("pending", "completed", "failed", "dead_letter", "cancelled"),
            private=True,
        ),
        OperatorVerb(
            "pause_queue",
            on="queue",
            role="operate",
            does="Pause a queue; no more of its rows start, and what runs goes on.",
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
            does="Resume a paused queue; its rows start again.",
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
            does="Limit a queue across all workers; a lower limit stops no row that runs already.",
            past="limited",
            command="queues limit",
            statement="limit",
            button="Save",
            asks="never",
        ),
        OperatorVerb(
            "retain_queue",
            on="queue",
            role="admin",
            does="Say how long the completed and cancelled rows of a queue are kept; a day of them is deleted when the "
            "last of it is that old.",
            past="retained",
            command="queues retain",
            statement="retain",
            button="Save",
            asks="never",
            grave=True,
        ),
        OperatorVerb(
            "drain_worker",
            on="worker",
            role="operate",
            does="Ask a worker to claim nothing more, to finish or give back what it holds, and to exit; your process "
            "manager may start another.",
            past="drained",
            command="workers drain",
            statement="drain_worker",
            button="Drain",
            asks="on a click",
        ),
        OperatorVerb(
            "run_schedule",
            on="schedule",
            role="operate",
            does="Enqueue a row of a schedule now; its next time stays as it was, and a paused one runs as well.",
            past="run",
            command="schedules run",
            statement="fire",
            button="Run now",
            asks="on a click",
        ),
        OperatorVerb(
            "pause_schedule",
            on="schedule",
            role="operate",
            does="Pause a schedule; it enqueues nothing until it is resumed, and ticks in between are missed.",
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
            does="Resume a paused schedule; its misfire policy decides about the ticks it missed.",
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
            does="Free an ordered key that waits for an operator; its first row stays as it ended, and the rows behind "
            "it may run.",
            past="freed",
            command="queues free",
            statement="free_key",
            button="Free the key",
            asks="on a click",
        ),
        OperatorVerb(
            "postpone_key",
            on="key",
            role="operate",
            does="Postpone the pending rows of a key; what runs goes on, and a row that is due later stays so.",
            past="postponed",
            command="queues postpone",
            statement="postpone",
            button="Postpone",
            asks="on a click",
        ),
        OperatorVerb(
            "pause_projection",
            on="projection",
            role="operate",
            does="Pause a projection; it applies no more events until it is resumed.",
            past="paused",
            command="projections pause",
            statement="pause_projection",
            button="Pause",
            asks="never",
        ),
        OperatorVerb(
            "resume_projection",
            on="projection",
            role="operate",
            does="Resume a projection; a shard that has stopped at an event tries it again, one whose row is gone gets "
            "another.",
            past="resumed",
            command="projections resume",
            statement="resume_projection",
            button="Resume",
            asks="never",
        ),
        OperatorVerb(
            "rebuild_projection",
            on="projection",
            role="operate",
            does="Fill the tables of a projection anew from the first event on; the old ones serve until they are "
            "swapped.",
            past="asked to rebuild",
            command="projections rebuild",
            statement="ask_rebuild",
            button="Rebuild",
            asks="on a click",
        ),
        OperatorVerb(
            "skip_projection",
            on="projection",
            role="operate",
            does="Pass over the event at which a projection has stopped; it is kept as skipped, and can be reapplied.",
            past="skipped",
            command="projections skip",
            statement="skip_stopped",
            button="Skip",
            asks="on a click",
        ),
        OperatorVerb(
            "signal_flow",
            on="flow",
            role="operate",
            does="Send a signal to a flow; the step that waits for it goes on, and one that nobody asked for is kept.",
            past="signalled",
            command="flow signal",
            statement="signal",
            button="Send",
            asks="never",
        ),
        OperatorVerb(
            "cancel_flow",
            on="flow",
            role="operate",
            does="Ask a flow to undo what it has done and to end as cancelled; its children are cancelled too, and a "
            "dead letter comes back to undo what it did.",
            past="asked to stop",
            command="flow cancel",
            statement="cancel_flow",
            button="Cancel",
            asks="on a click",
            grave=True,
        ),
        OperatorVerb(
            "pause_endpoint",
            on="endpoint",
            role="operate",
            does="Pause an endpoint of webhooks; it is not called until it is resumed, and what is sent to it waits.",
            past="paused",
            command="hooks pause",
            statement="set_endpoint",
            button="Pause",
            asks="never",
        ),
        OperatorVerb(
            "resume_endpoint",
            on="endpoint",
            role="operate",
            does="Call an endpoint again that is paused, disabled or failing; its circuit is closed, and what waits is "
            "due now.",
            past="resumed",
            command="hooks resume",
            statement="set_endpoint",
            button="Resume",
            asks="never",
        ),
        OperatorVerb(
            "test_endpoint",
            on="endpoint",
            role="operate",
            does="Send an endpoint one webhook that says it is a test; it is signed and tried like all others.",
            past="tested",
            command="hooks test",
            statement="try_endpoint",
            button="Send a test",
            asks="never",
        ),
        OperatorVerb(
            "resend_webhooks",
            on="endpoint",
            role="operate",
            does="Send an endpoint webhooks again that are kept; each keeps its id, so a receiver that dedupes drops "
            "what it has seen.",
            past="sent again",
            command="hooks resend",
            statement="resend_webhook",
            button="Resend",
            asks="on a click",
        ),
    )
}
ON_ROWS = {name: verb for name, verb in OPERATOR_VERBS.items() if verb.on == "rows"}
