"""A tenant of the shop: it verifies with the public library `standardwebhooks`, and takes each webhook once.

pip install standardwebhooks
echo whsec_… > secrets.txt          # one a line; read for each request, so a new one needs no restart
python receiver.py secrets.txt 8000
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

seen: set[str] = set()


def verified(secrets: list[str], body: bytes, headers: dict[str, str]) -> Any:
    """What was sent, if one of the secrets has signed it; else None."""
    for secret in secrets:
        try:
            return Webhook(secret).verify(body, headers)
        except WebhookVerificationError:
            continue
    return None


class Receiver(BaseHTTPRequestHandler):
    """Prints a line for each webhook that it takes."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        data = verified(Path(sys.argv[1]).read_text().split(), body, headers)
        if data is not None and headers["webhook-id"] not in seen:
            seen.add(headers["webhook-id"])  # a real one: in the transaction that does the work
            print(json.dumps({"id": headers["webhook-id"], "data": data}), flush=True)
        self.send_response(401 if data is None else 204)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Receiver)
    print(json.dumps({"port": server.server_address[1]}), flush=True)
    server.serve_forever()
