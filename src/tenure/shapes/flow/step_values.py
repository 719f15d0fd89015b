"""Results and arguments of steps: as JSON, as the type that a function promises, and as a number to compare."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from functools import lru_cache
from hashlib import blake2b
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from ...errors import InvalidPayload
from ...model.outcome import Fail
from ...model.payload import encode
from ...verbs.steps import Step
from .effects import Call
from .trouble import FlowLimit, Permanent

RESULT_BYTES_MAX = 256 * 1024


def returned(call: Call, value: Any) -> str:
    """What a body returned, as it is recorded; Permanent if it cannot be read back as its function says, or not at all.

    That is looked at before it is recorded: no later attempt could go on from it. Nobody reads what an undo returned.
    """
    if isinstance(value, Fail):
        raise Permanent(value.error)
    try:
        text = written(call.name, value)
    except InvalidPayload as error:
        why = str(error).rpartition(": ")[0].replace("payload", "result", 1)
        raise Permanent(f"what it returned cannot be recorded ({why}): return plain values") from None
    try:
        read(call, text)
    except msgspec.ValidationError as error:
        raise Permanent(f"what it returned is not what its function says that it returns: {error}") from None
    return text


def read(call: Call, text: str | None) -> Any:
    """A result as the function of its step says it is, or msgspec.ValidationError."""
    return msgspec.json.decode(text or "null", type=result_type(call.function) if call.undoes is None else Any)


def written(name: str, value: Any) -> str:
    """A result as JSON text, or FlowLimit."""
    text = encode(value)
    if len(text) > RESULT_BYTES_MAX:
        raise FlowLimit(
            f"step {name!r} returned {len(text)} bytes, the most is {RESULT_BYTES_MAX}: store it, return its address"
        )
    return text


def each_place_once(*steps: Step) -> tuple[Step, ...]:
    """What is recorded at one place: the last of it."""
    return tuple({(step.path, step.n): step for step in steps}.values())


def hash_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """The arguments as a number; what is no JSON counts by its type."""
    try:
        text = msgspec.json.encode((args, kwargs) if kwargs else args, enc_hook=lambda each: type(each).__qualname__)
    except Exception:
        return 0
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big", signed=True)


@lru_cache(maxsize=10_000)
def result_type(function: Callable[..., Any]) -> Any:
    """What a function says that it returns, if that is a type JSON can be read as; else anything."""
    try:
        found = get_type_hints(function).get("return", Any)
        if isinstance(get_origin(found), type) and issubclass(get_origin(found), Awaitable):
            found = get_args(found)[-1]
        msgspec.json.Decoder(found)
    except Exception:
        return Any
    return found


class TimedOut(Enum):
    """What wait_for answers when its time is up."""

    TIMED_OUT = "timed out"

    def __bool__(self) -> bool:
        return False


TIMED_OUT = TimedOut.TIMED_OUT


def cut_short(step: Step, name: str, deadline: float) -> bool:
    """Whether a wait was ended by the deadline of its flow; a sleep that is over may be recorded as waiting."""
    if step.state == "waiting":
        return (step.until or 0.0) >= deadline
    return (step.state == "timed_out" or name == "sleep") and step.recorded_at >= deadline


def nothing(step: Step) -> None:
    """What a sleep answers."""
    del step


def signalled(step: Step) -> Any:
    """The payload of a signal, or that its time was up."""
    return TIMED_OUT if step.state == "timed_out" else msgspec.json.decode(step.result or "null")
