"""The bus: where events go, on the thread that emits them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress

from .event import Event

Subscriber = Callable[[Event], None]


class Bus:
    """Subscribers are called in turn, on the thread that emits; one that raises is dropped, and logged.

    What is emitted on the bus of a part goes on to the bus of the whole.
    """

    def __init__(self, *wholes: Bus) -> None:
        self._changing = threading.Lock()  # who emits reads a tuple, and needs no lock
        self._all: tuple[Subscriber, ...] = ()
        self._each_job: tuple[Subscriber, ...] = ()
        self._wholes = wholes

    def subscribe(self, subscriber: Subscriber, *, each_job: bool = True) -> None:
        """Receive every event from now on; with each_job=False none of level debug, which every job causes."""
        with self._changing:
            self._all += (subscriber,)
            if each_job:
                self._each_job += (subscriber,)

    def unsubscribe(self, subscriber: Subscriber) -> bool:
        """Receive nothing more; False if it did not."""
        with self._changing:
            before = len(self._all)
            self._all = tuple(each for each in self._all if each != subscriber)
            self._each_job = tuple(each for each in self._each_job if each != subscriber)
            return len(self._all) < before

    def join(self, whole: Bus) -> None:
        """What is emitted here goes on to that bus."""
        with self._changing:
            self._wholes += (whole,)

    def leave(self, whole: Bus) -> None:
        """It does so no more."""
        with self._changing:
            self._wholes = tuple(each for each in self._wholes if each is not whole)

    @property
    def each_job(self) -> bool:
        """True if somebody wants the events of every job, here or there. Making them costs more than the job itself."""
        if self._each_job:
            return True
        for whole in self._wholes:  # noqa: SIM110 - asked for every job
            if whole.each_job:
                return True
        return False

    def emit(self, event: Event) -> None:
        """Call the subscribers."""
        for subscriber in self._each_job if event.level == "debug" else self._all:
            try:
                subscriber(event)
            except Exception:
                self._drop(subscriber, event)  # a subscriber that raises must not stop the work
        for whole in self._wholes:
            whole.emit(event)

    def _drop(self, subscriber: Subscriber, event: Event) -> None:
        """Say so once, with the traceback of the exception that is handled now; logging itself may be what raised."""
        if self.unsubscribe(subscriber):
            with suppress(Exception):
                said = "the subscriber %r raised at %s: it gets no more events"
                logging.getLogger("tenure").exception(said, subscriber, event.name)
