"""A Definition: one version of a workflow, and what its handler cannot be."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from math import isfinite
from typing import Any

from ...app.key_template import check_template
from ...app.signature import Signature
from ...errors import BadSettings


class Definition:
    """One version of a workflow: its function, and the payload that it takes."""

    def __init__(self, name: str, version: int, function: Callable[..., Any], strict: bool, cleanup: float) -> None:
        self.version, self.function, self.strict, self.cleanup_seconds = version, function, strict, cleanup
        self.named: str | None = None
        self.deadline_seconds: float | None = None
        self.options: dict[str, Any] = {}  # of the handler, while it is the newest
        found = inspect.signature(function, eval_str=True)
        parameters = list(found.parameters.values())
        if not parameters:
            raise BadSettings(f"workflow {name!r} takes nothing: its first parameter is the flow")

        def fields() -> None: ...

        fields.__signature__ = found.replace(parameters=parameters[1:])  # type: ignore[attr-defined]
        self.signature = Signature(fields, name, None)
        self.promises = found.return_annotation not in (None, type(None), inspect.Signature.empty)  # then it is kept

        if type(cleanup) not in (int, float) or not isfinite(cleanup) or cleanup < 0:
            raise BadSettings(f"workflow {name!r} has cleanup_seconds={cleanup!r}: it must be a number of 0 or more")

    def name_instances(self, workflow: str, named: object) -> None:
        """By its input, as "order:{order_id}"; BadSettings if no name can be made so."""
        if named is not None and not isinstance(named, str):
            raise BadSettings(f"workflow {workflow!r} has name={named!r}: it must be text, as 'order:{{order_id}}'")
        check_template(f"workflow {workflow!r} has name={named!r}", named, self.signature.fields)
        self.named = named

    def queue(self, kind: str) -> str:
        """Where instances are that began with it."""
        given: str | None = self.options.get("queue")
        return given if given is not None else "default" if self.options.get("limits") is None else kind


def check_options(workflow: str, options: dict[str, Any], *, encrypted: bool) -> None:
    """BadSettings if a workflow cannot have these options of a handler."""
    if "max_attempts" in options:
        raise BadSettings(f"workflow {workflow!r} cannot have max_attempts: give its steps retry=Tries(…) instead")
    if options.get("unique") is not None:
        raise BadSettings(f"workflow {workflow!r} cannot be unique: a second start of one name= is the first")
    if options.get("ordered") or options.get("pool") == "process":
        raise BadSettings(f"workflow {workflow!r} cannot be ordered, nor run in processes: leave both out")
    if encrypted and options.get("encrypt") is not False:
        raise BadSettings(
            f"workflow {workflow!r} is in an inbox with a codec, and what its steps return is kept in clear: "
            "say encrypt=False, and keep secrets out of its results"
        )
