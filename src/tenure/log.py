"""Where logs were in 0.1.0: the names that its docs taught, from telemetry/log.py."""

from __future__ import annotations

import warnings

from .telemetry.log import Bridge as Bridge
from .telemetry.log import JsonFormatter as JsonFormatter

warnings.warn("tenure.log is tenure.telemetry.log now: import from there", DeprecationWarning, stacklevel=2)
