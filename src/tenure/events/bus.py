"""The bus: where events go, on the thread that emits them."""

from __future__ import annotations

from collections.abc import Callable

from .event import Event

Subscriber = Callable[[Event], None]


class Bus:
    """Subscribers are called in turn, on the thread that emits; one that raises is dropped."""

    def __init__(self) -> None:
        self._all: tuple[Subscriber, ...] = ()
        self._each_job: tuple[Subscriber, ...] = ()

    def subscribe(self, subscriber: Subscriber, *, each_job: bool = True) -> None:
        """Receive every event from now on; with each_job=False none of level debug, which every job causes."""
        self._all += (subscriber,)
        if each_job:
            self._each_job += (subscriber,)

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Receive nothing more."""
        self._all = tuple(each for each in self._all if each != subscriber)
        self._each_job = tuple(each for each in self._each_job if each != subscriber)

    @property
    def each_job(self) -> bool:
        """True if somebody wants the events of every job. Making them costs more than the job itself."""
        return bool(self._each_job)

    def emit(self, event: Event) -> None:
        """Call the subscribers."""
        for subscriber in self._each_job if event.level == "debug" else self._all:
            try:
                subscriber(event)
            except Exception:
                self.unsubscribe(subscriber)  # a subscriber that raises must not stop the work
