"""What the kernel can do with a socket: drop its packets, count unacknowledged bytes, reset it."""

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
    """Can this system drop packets? Linux can; some systems let only root do it."""
    with socket.socket() as end:
        try:
            end.setsockopt(socket.SOL_SOCKET, ATTACH_FILTER, _program())
        except OSError:
            return False
    return sys.platform == "linux"


def set_filter(end: socket.socket, option: int) -> None:
    """Drop every packet that comes to this socket (ATTACH_FILTER), or none (DETACH_FILTER)."""
    with suppress(OSError):  # it has no filter, or has just ended
        end.setsockopt(socket.SOL_SOCKET, option, _program())


def _program() -> bytes:
    return struct.pack("HP", 1, ctypes.addressof(_DROP_ALL))


def unacknowledged(end: socket.socket) -> int:
    """How many bytes the peer has not acknowledged; 0 for a connection that has just ended."""
    with suppress(OSError):
        answer = fcntl.ioctl(end, termios.TIOCOUTQ, bytes(4))
        return int(struct.unpack("i", answer)[0])
    return 0


def reset(end: socket.socket) -> None:
    """End a connection by RST rather than FIN."""
    with suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        end.shutdown(socket.SHUT_RD)  # wakes a thread that reads from it, and sends nothing to the peer yet
    end.close()


def close(end: socket.socket) -> None:
    """End a connection by FIN; one that another thread resets at this moment still ends by RST."""
    with suppress(OSError):
        if end.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, len(_RESET)) != _RESET:
            end.shutdown(socket.SHUT_RDWR)
    end.close()
