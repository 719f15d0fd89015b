"""A small OpenID Connect provider on loopback, as a process of its own: code flow, PKCE checked, and faults on demand.

`python oidc_server.py PORT`; POST /next sets the claims of the next login, and what is to be wrong with it.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import sys
import time
from typing import Any
from urllib.parse import parse_qs, urlencode

import uvicorn
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

PORT = int(sys.argv[1])
ISSUER = f"http://127.0.0.1:{PORT}"
CLIENT, SECRET = "tenure", "client-secret:+/"
KEY, OTHER = (RSAKey.generate_key(2048, {"kid": kid}, private=True) for kid in ("a", "a"))
NEXT: dict[str, Any] = {}
CODES: dict[str, dict[str, str]] = {}


async def about(_request: Request) -> Response:
    ends = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
    issuer = NEXT.get("issuer", ISSUER)
    return JSONResponse({"issuer": issuer, **{name: f"{ISSUER}/{path}" for name, path in ends.items()}})


async def keys(_request: Request) -> Response:
    return JSONResponse(KeySet([KEY]).as_dict(private=False))


async def authorize(request: Request) -> Response:
    asked = dict(request.query_params)
    assert asked["response_type"] == "code"
    assert asked["client_id"] == CLIENT
    assert asked["code_challenge_method"] == "S256"
    assert "openid" in asked["scope"].split()
    if "refuse" in NEXT:
        return RedirectResponse(
            f"{asked['redirect_uri']}?{urlencode({'error': NEXT['refuse'], 'state': asked['state']})}"
        )
    code = secrets.token_urlsafe(16)
    CODES[code] = asked
    return RedirectResponse(f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}")


async def token(request: Request) -> Response:
    form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
    basic = base64.b64decode(request.headers.get("authorization", "").removeprefix("Basic ")).decode()
    begun = CODES.pop(form.get("code", ""), None)
    shown = (
        base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest()).decode().rstrip("=")
    )
    if basic != "tenure:client-secret%3A%2B%2F":
        return JSONResponse({"error": "invalid_client"}, 401)
    if begun is None or shown != begun["code_challenge"] or form["redirect_uri"] != begun["redirect_uri"]:
        return JSONResponse({"error": "invalid_grant"}, 400)
    now = int(time.time())
    claims = {"iss": ISSUER, "aud": CLIENT, "sub": "7", "iat": now, "exp": now + 60, "nonce": begun["nonce"]}
    claims |= NEXT.get("claims", {})
    key, header = (OTHER if NEXT.get("forged") else KEY), {"alg": "RS256", "kid": "a"}
    signed = jwt.encode(header, {name: value for name, value in claims.items() if value is not None}, key)
    if NEXT.get("unsigned"):
        head = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
        signed = f"{head}.{signed.split('.')[1]}."
    return JSONResponse({"access_token": "x", "token_type": "Bearer", "id_token": signed})


async def then(request: Request) -> Response:
    NEXT.clear()
    NEXT.update(await request.json())
    return Response(status_code=204)


uvicorn.run(
    Starlette(
        routes=[
            Route("/.well-known/openid-configuration", about),
            Route("/keys", keys),
            Route("/authorize", authorize),
            Route("/token", token, methods=["POST"]),
            Route("/next", then, methods=["POST"]),
        ]
    ),
    host="127.0.0.1",
    port=PORT,
    log_level="error",
)
