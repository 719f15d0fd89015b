"""Migrations for Django: one for each numbered SQL file of Tenure; see sql_files.py."""

from __future__ import annotations

import sys

from ..sql_files import PLACE, hook

if hook not in sys.path_hooks:
    sys.path_hooks.append(hook)
    sys.path_importer_cache.pop(PLACE, None)
__path__ = [PLACE]
