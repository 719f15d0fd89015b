"""What the kernel can be asked to do to a socket: drop its packets, say what was not acknowledged, reset it."""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct
import sys
import termios
from contextlib import suppress

ATTACH_FILTER, DETACH_FILTER = 26, 27
_DROP_ALL = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))  # one BPF instruction: keep 0 bytes
_RESET = struct.pack("ii", 1, 0)  # linger for 0 seconds


def can_drop_packets() -> bool:
    """Linux has the filter; some systems let only root use it."""
    with socket.socket() as end:
        try:
            end.setsockopt(socket.SOL_SOCKET, ATTACH_FILTER, _program())
        except OSError:
            return False
    return sys.platform == "linux"


def set_filter(end: socket.socket, option: int) -> None:
    """Let every packet that comes to this socket vanish (ATTACH_FILTER), or none any more (DETACH_FILTER)."""
    with suppress(OSError):  # one that has no filter to take off, or has just ended
        end.setsockopt(socket.SOL_SOCKET, option, _program())


def _program() -> bytes:
    return struct.pack("HP", 1, ctypes.addressof(_DROP_ALL))


def unacknowledged(end: socket.socket) -> int:
    """How many bytes the peer's kernel has not yet said it has; none of a connection that has just ended."""
    with suppress(OSError):
        answer = fcntl.ioctl(end, termios.TIOCOUTQ, bytes(4))
        return int(struct.unpack("i", answer)[0])
    return 0


def reset(end: socket.socket) -> None:
    """End a connection by RST rather than FIN."""
    with suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        end.shutdown(socket.SHUT_RD)  # wakes whoever reads from it, and tells the peer nothing yet
    end.close()


def close(end: socket.socket) -> None:
    """End a connection by FIN; one that another thread resets at this moment still ends by RST."""
    with suppress(OSError):
        if end.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, len(_RESET)) != _RESET:
            end.shutdown(socket.SHUT_RDWR)
    end.close()
