"""A browser for whoever sits at this screen."""

from __future__ import annotations

import os
import sys
import threading
import webbrowser


def browse(address: str) -> bool:
    """Open a browser, if there is a screen to open it on; on a thread, for it may take its time."""
    if sys.platform != "darwin" and not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
        return False
    threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()
    return True
