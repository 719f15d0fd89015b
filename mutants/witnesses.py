"""Which tests are asked about a guard, and in which order: those first that are likely to notice, and soon."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from .guards import Mutant

LIKELY = (8, 40, 150)  # the best few; as many as speak of it; all that run it, if they are no more than these
KILLERS_FIRST = 4
MACHINE = "tests/properties/test_state_machine.py"
SLOWER = ("tests/properties/test_interleavings.py", "tests/properties/test_lock_order.py")
ROOMS = ("guarantees", "properties", "shapes")
BESIDES = ("chaos/test_two_phase.py", "chaos/test_standby.py")  # what needs servers of its own
LEFT_OUT = (
    "test_mutants_slice.py",
    "test_embedded.py",
    # Whole workers: too slow to run once for each guard, and what they show of the SQL others show alone.
    "test_at_rest.py",
    "test_drain.py",
    "test_idle_fleet.py",
    "test_leases_kept.py",
    "test_operated_workers.py",
    "test_stopped_worker.py",
    "test_wakeup.py",
    "test_worker.py",
    "test_worker_crash_points.py",
    "test_worker_queues.py",
    # Brokers.
    "test_example_shop_events.py",
    "test_transports.py",
)

BEYOND_THE_MACHINE = (
    "backoff",
    "enqueue",
    "enqueue_as_given",
    "enqueue_keyed",
    "enqueue_one",
    "refuse_row",
    "keep_archive",
    "live",
    "dead",
    "attempts",
    "idempotency",
    "effects",
    "fences",
    "workers",
)
SLOW_WORDS = re.compile("at_once|many|hundred|killed|deadlock|process")  # until a baseline has measured them

# The words by which a test file shows that it is about a statement, where that is not the statement's own name.
WORDS = {
    **dict.fromkeys(
        (
            "claim_limited",
            "refilled",
            "priorities",
            "look_at_lanes",
            "refresh_lanes",
            "fill_lanes",
            "begin_limits",
            "adopt_running",
            "due_lanes",
            "begin_lanes",
            "due_from",
            "lock_lane_rows",
            "lock_due_rows",
            "begin_era",
            "note_lane",
            "note_freed",
            "forget_limits",
            "free_heads",
            "admitted",
            "give_permits",
        ),
        ("_claim(",),
    ),
    **dict.fromkeys(
        ("due_heads", "look_at", "refresh_heads", "hear_arrivals", "claim_ordered", "note_arrivals"),
        ("_claim(", "claim_ordered"),
    ),
    "next_transaction": ("note_forgotten", "begun"),
    "open_transactions": ("limits_begun", "open_transactions("),
    **dict.fromkeys(
        ("leave_mark", "marks", "mark_tag", "last_position", "append_events", "refuse_event", "read_between"),
        ("positions(world", "add(world"),
    ),
    **dict.fromkeys(
        ("plan_projection", "shard_state", "projections", "skip_stopped"), ("plan_projection(", "skip_stopped(")
    ),
    "swap_shadow": ("swapped(",),
    "raise_sequences": ("raise_sequences(", "GENERATED ALWAYS AS IDENTITY"),
    "ask_rebuild": ("asked(",),
    "must_see_commits": ("REPEATABLE", "SERIALIZABLE", "standby_url"),
    "must_read_committed": ("REPEATABLE", "serializable"),
    "add_tally": ("tally",),
    **dict.fromkeys(("add_backlog", "count_due", "count_due_keys"), ("note_backlog(",)),
    "audit_words": ("verified(",),
    "note_membership": ("membership",),
    "note_refusals": ("refusals",),
    "wake_at_commit": ("prepare", "listener"),
    "key_by": ("kinds", "declare"),
    **dict.fromkeys(("presences", "presence_key"), ("fleet.notice",)),
    "claim": ("way: Way", "claim_one(", "claim("),
    "standing": ("standing", "reason"),
    "dead": ("CheckViolation", "UniqueViolation"),
    "end_attempts": ("retry", "release", "dead_letter", "sweep"),
    "enqueue_many": ("idempotency_key", "enqueue_many"),
    "enqueue_keyed": ("idempotency_key",),
    "enqueue_again": ("after_end",),
    "enqueue_unique": ("unique",),
    "declare_limits": ("declare_limits",),
    **dict.fromkeys(("take_share", "raise_share"), ("take_share(",)),
    "rest": ("schedules.rest(",),
    "enqueue_one": ("listener", "enqueue_one"),
    **dict.fromkeys(("enqueue", "enqueue_as_given"), ("InvalidParameterValue", "max_attempts")),
    **dict.fromkeys(("refuse_row", "fault_of", "bytes_of"), ("door", "CheckViolation", "InvalidParameterValue")),
    **dict.fromkeys(("note", "wake_for"), ("listener", "notes()")),
    "next_fence": ("incarnation", "epoch"),
    "held": ("evict", "overdue"),
    "since": ("floor",),
    "sweep_pages": ("sweep_pages",),
    "note_forgotten": ("note_forgotten",),
    "keep_archive": ("archive(", "retention"),
    **dict.fromkeys(("thin_day", "retentions", "days"), ("retain(",)),
    "content": ("encrypt", "idempotency_key"),
    "forget_keys": ("operators.erase(",),
    "live": ("CheckViolation", "half"),
    "attempts": ("UniqueViolation", "tape"),
    "idempotency": ("UniqueViolation", "idempotency"),
    "effects": ("UniqueViolation", "once("),
    "workers": ("register(",),
    "keep_audit": ("UPDATE audit", "only ever added to", "forgotten("),
    "seal_audit": ("witness.seal",),
    "due_from": ("SELECT due_from(",),
    "read_between": ("read_between(", "journal.read("),
    "refuse_event": ("INSERT INTO journal", "CheckViolation"),
    "forget_audit": ("forgotten(",),
    **dict.fromkeys(("note_reading", "end_reading"), ("witness.end_reading",)),
    **dict.fromkeys(("use_token", "revoke_token", "create_token", "tokens"), ("used(",)),
    "deliver_to": ("send_webhook(", "resend_webhook("),
    "search": ("finding.",),
    "rouse": ("notes()",),
    "park": ("_park(",),
    "signal": ("_signal(",),
    "record": ("_record(", "steps.record("),
    "put_back": ("steps.put_back(",),
    **dict.fromkeys(("reopen", "went_on", "stop_flow", "cancel_flow"), ("cancel_flow(",)),
    **dict.fromkeys(("anew", "wake", "say"), ("steps.anew(", "steps.wake(", "steps.say(")),
    "keep_flows": ("verbs.archive(", "steps", "days"),
    "replay": ("outboxes.replay(",),
    **dict.fromkeys(("await_end", "keep_results"), ("await_end(", "verbs.archive()", "results")),
    **dict.fromkeys(("keep_values", "results"), ("results",)),
    **dict.fromkeys(
        ("count_ends", "count_again", "make_due", "follow", "enqueue_group", "groups", "group_slots"), ("open_group",)
    ),
}


class Witnesses:
    """The fast tests below a root, what each of them costs, and what they have noticed before."""

    def __init__(self, root: Path, killers: Path, *, stages: int | None) -> None:
        self.files = {path: (root / path).read_text(encoding="utf-8") for path in _test_files(root)}
        self.tests = dict(part for path, text in self.files.items() for part in _test_functions(path, text))
        self.seconds = {test: 1.0 for test in self.tests if SLOW_WORDS.search(test)}
        self.known = [line.split("\t") for line in killers.read_text(encoding="utf-8").splitlines()]
        self.killers = list(self.known)
        self.left_out: list[str] = []
        self.stages = stages
        self.runs: dict[str, set[str]] = {}  # by statement: the tests that run it

    def measured(self, durations: str, reach: Path) -> None:
        """Take in what each test cost, as pytest prints it, and write it beside what each of them ran."""
        seconds: dict[str, float] = {}
        for cost, test in re.findall(r"^([\d.]+)s \w+ +([\w/.:]+)", durations, re.MULTILINE):
            seconds[test] = seconds.get(test, 0.0) + float(cost)
        runs = json.loads(reach.read_text(encoding="utf-8"))
        reach.write_text(json.dumps({"seconds": seconds, "runs": runs}, indent=0), encoding="utf-8")
        self.recall(reach)

    def recall(self, reach: Path) -> None:
        """What the last baseline has found, if there was one."""
        if reach.exists():
            found = json.loads(reach.read_text(encoding="utf-8"))
            self.seconds |= found["seconds"]
            self.runs = {name: set(tests) for name, tests in found["runs"].items()}

    def noticed(self, mutant: Mutant, test: str) -> None:
        """This one turned red: ask it first about the other guards of the statement."""
        self.killers.append([mutant.statement, mutant.what, test])

    def know(self, mutant: Mutant) -> bool:
        """True if a test that there still is has missed this very guard before."""
        killers = {
            f"/{test}" for statement, what, test in self.killers if [statement, what] == [mutant.statement, mutant.what]
        }
        return any(test.endswith(tuple(killers)) for test in self.tests)

    def needed(self, mutants: Sequence[Mutant]) -> list[str]:
        """The files of the tests that are asked first about these."""
        first = {test.split("::")[0] for mutant in mutants for test in self.in_order(mutant)[0]}
        return sorted(first & self.files.keys())

    def in_order(self, mutant: Mutant) -> list[list[str]]:
        """Who killed it last time; the tests that speak most of the statement and take least; more; all."""
        statement = mutant.statement
        words = WORDS.get(statement, (f"{statement}(",))
        runs = self.runs.get(statement, set())
        score = {
            test: ((test in runs) + _mentions(words, text, self.files[test.split("::")[0]]))
            / (0.2 + self.seconds.get(test, 0.0))
            for test, text in self.tests.items()
            if not test.startswith((MACHINE, *SLOWER)) and test not in self.left_out
        }
        ranked = sorted(score, key=lambda test: -score[test])
        slower = [path for path in self.files if path in SLOWER]
        reached = not runs or any(test.startswith(MACHINE) for test in runs)
        machine = [[MACHINE]] if reached and statement not in BEYOND_THE_MACHINE else []
        most = len(runs) if len(runs) <= LIKELY[2] else 0
        few, more = LIKELY[0], max(LIKELY[0], most, min(LIKELY[1], sum(score[test] > 0 for test in ranked)))
        rest = [*ranked[more:], *slower]
        stages = [self._killers_of(mutant), ranked[:few], ranked[few:more], *machine, rest]
        left_out = [f"--deselect={test}" for test in self.left_out]
        return [[*stage, *left_out] for stage in stages if stage][: self.stages]

    def _killers_of(self, mutant: Mutant) -> list[str]:
        """The tests that killed this mutant or one of the same words, or the latest few of its statement."""
        beside = [killer for killer in self.killers if killer[0] == mutant.statement][::-1]
        alike = [killer for killer in beside if _words(killer[1]) == _words(mutant.what)]
        this = [killer for killer in alike if killer[1] == mutant.what]
        names = list(dict.fromkeys(test.split(" ")[0] for _, _, test in [*this, *alike, *beside]))[:KILLERS_FIRST]
        return [test for name in names for test in self.tests if test.endswith(f"/{name}")]


def _test_files(root: Path) -> list[str]:
    found = [path for room in ROOMS for path in (root / "tests" / room).glob("test_*.py")]
    found += [root / "tests" / path for path in BESIDES]
    return sorted(str(path.relative_to(root)) for path in found if path.name not in LEFT_OUT)


def _words(what: str) -> str:
    """What is taken out, wherever in its statement it stands."""
    return re.sub(r" \(\d+\)$", "", what)


def _mentions(words: Sequence[str], test: str, file: str) -> float:
    """How much a test speaks of these words; its file counts a little, for scenes written beside the test."""
    inside, around = (sum(text.count(word) for word in words) for text in (test, file))
    return min(inside, 3) + min(around, 10) / 10


def _test_functions(path: str, text: str) -> Iterator[tuple[str, str]]:
    """The tests of a file by name, with the text of each."""
    lines = text.split("\n")
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield f"{path}::{node.name}", "\n".join(lines[node.lineno - 1 : node.end_lineno])
