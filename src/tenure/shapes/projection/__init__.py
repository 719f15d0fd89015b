"""The journal and its projections: what happened, and the tables that are made of it."""

from __future__ import annotations

from ...model.journal import Event as Event
from ...model.journal import NewEvent as NewEvent
from .journal import Journal as Journal
