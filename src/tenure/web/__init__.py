"""The web: an HTTP API and a dashboard, mountable in any ASGI app and served by `tenure serve`.

application.mount("/tenure", tenure.web.app(access=who))     # who(request) -> Access("ann", "operate") or None
"""

from __future__ import annotations

from importlib.util import find_spec

from ..errors import BadSettings

if find_spec("starlette") is None:
    raise BadSettings('the dashboard and the HTTP API need starlette and uvicorn: pip install "tenure[web]"')

from .access import Access as Access
from .access import local as local
from .app import app as app
from .app import lifespan as lifespan
