"""The journal and its projections: what happened, and the tables that are made of it."""

from __future__ import annotations

from .journal import Journal as Journal
