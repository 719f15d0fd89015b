"""When the board is read: before a claim, unless a note has just said where to look; never much later for a note."""

from __future__ import annotations

import time

from tenure.worker.sleep import DEEP_SECONDS_MAX, DEEP_SHARE, SOON_SECONDS, Sleep


def read(sleep: Sleep, at: float) -> None:
    sleep.board_was_read(at, None, 0.5)


def test_a_board_that_is_due_is_read_before_the_next_claim() -> None:
    sleep = Sleep(5.0)
    read(sleep, at := time.monotonic())
    assert not sleep.is_time_for_the_board(at + 0.1)
    sleep.look_now()
    assert sleep.is_time_for_the_board(at + 0.1)


def test_after_a_note_the_claim_goes_first() -> None:
    sleep = Sleep(5.0)
    at = time.monotonic()
    sleep.board_at = at
    sleep.note()
    assert not sleep.is_time_for_the_board(at + SOON_SECONDS / 2)
    sleep.board_at = at + 1.0
    assert sleep.is_time_for_the_board(at + 1.0), "a note of before puts nothing off"


def test_however_many_notes_come_a_board_is_put_off_by_a_moment_only() -> None:
    sleep = Sleep(5.0)
    sleep.board_at = time.monotonic() - SOON_SECONDS
    sleep.note()
    assert sleep.is_time_for_the_board(time.monotonic())


def test_while_a_note_puts_the_board_off_the_worker_rests_and_does_not_spin() -> None:
    sleep = Sleep(5.0)
    sleep.producers_told(True, ears="w")
    read(sleep, at := time.monotonic())
    sleep.look_soon()
    sleep.note()
    while not sleep.is_time_for_the_board(at):
        rest = sleep.next(at, work=False, free=True, draining=False, dry_until=float("inf"), ears="w")
        assert rest.seconds > SOON_SECONDS / 10, "a round that reads nothing ends in a rest"
        at += rest.seconds + 1e-6


def look(sleep: Sleep, at: float, *, noted: bool = False) -> tuple[bool, bool]:
    _, late, deep = sleep.look(at, noted=noted)
    return late, deep


def test_boards_without_floors_take_a_tenth_of_the_time_however_many_dead_versions_they_pass() -> None:
    sleep = Sleep(1.0)
    at = time.monotonic() - 2.0
    assert look(sleep, at) == (True, True)
    sleep.board_was_read(at, None, 0.5)  # it took two seconds
    assert look(sleep, at + 2.1) == (True, False), "polls from floors come as often as ever"
    assert look(sleep, at + 2.0 * DEEP_SHARE - 1.0, noted=True) == (True, False)
    assert look(sleep, at + 2.0 * DEEP_SHARE + 1.0, noted=True) == (True, True)
    sleep.connection_lost()
    assert look(sleep, at) == (True, True), "another server has another clock"


def test_a_look_that_was_too_dear_is_made_up_for_as_soon_as_it_can_be_afforded_also_by_an_idle_worker() -> None:
    """A row that was sent with a past time is told by one note: no other may come, and the next poll in an hour."""
    sleep = Sleep(3600.0)
    sleep.producers_told(True, ears="w")
    at = time.monotonic() - 0.1
    assert look(sleep, at) == (True, True)
    sleep.board_was_read(at, None, 0.5)  # a tenth of a second: another one in a second
    assert look(sleep, at + 0.4, noted=True) == (True, False)
    sleep.board_was_read(at + 0.4, None, None)
    rests = 0
    while not sleep.is_time_for_the_board(at):
        at += sleep.next(at, work=False, free=True, draining=False, dry_until=float("inf"), ears="w").seconds + 1e-6
        rests += 1
    assert rests < 5
    assert look(sleep, at) == (True, True)
    sleep.board_was_read(at, None, None)
    assert look(sleep, at + 100.0) == (False, False), "once"


def test_a_look_that_the_server_refuses_is_not_tried_again_at_once() -> None:
    """It ran into the time that a statement may take: the next boards begin at floors."""
    sleep = Sleep(1.0)
    at = time.monotonic()
    assert look(sleep, at) == (True, True)
    assert look(sleep, at + 1.0) == (True, False)
    assert look(sleep, at + DEEP_SECONDS_MAX + 1.0) == (True, True)


def test_a_server_that_was_away_puts_no_look_off_for_long() -> None:
    sleep = Sleep(1.0)
    at = time.monotonic() - 1000.0
    look(sleep, at)
    sleep.board_was_read(at, None, 0.5)
    assert look(sleep, at + DEEP_SECONDS_MAX + 1.0) == (True, True)
