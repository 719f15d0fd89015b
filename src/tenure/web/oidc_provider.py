"""The provider of OpenID Connect: what it says of itself, its keys, and what it says of a person, all checked."""

from __future__ import annotations

import hashlib
import hmac
import time
from base64 import urlsafe_b64encode
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote, urlsplit

from ..console.loopback import is_loopback
from ..errors import BadSettings

if find_spec("joserfc") is None or find_spec("httpx") is None:
    raise BadSettings('login by OpenID Connect needs joserfc and httpx: pip install "tenure[oidc]"')

import httpx
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

ALGORITHMS = [
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
]  # no shared keys
KNOWN_SECONDS = 3600.0
AGAIN_SECONDS = 30.0  # between two looks at its keys, however many unknown ones come
LEEWAY_SECONDS = 60
ANSWER_SECONDS = 10.0
ANSWER_BYTES_MAX = 1_000_000


class BadLogin(Exception):
    """Why nobody was logged in, in one sentence."""

    def __init__(self, sentence: str, status: int = 401) -> None:
        super().__init__(sentence)
        self.status = status


class Provider:
    """Asks one provider, and believes only what is signed by its keys, for this client and this login."""

    def __init__(self, issuer: str, client: str, secret: str) -> None:
        self._issuer = check_address(issuer, "TENURE_WEB_OIDC_ISSUER")
        self._client, self._secret = client, secret
        self._said: dict[str, Any] = {}
        self._said_at = self._keys_at = float("-inf")
        self._keys: KeySet | None = None

    async def endpoint(self, name: str) -> str:
        """One of its addresses."""
        if time.monotonic() - self._said_at > KNOWN_SECONDS:
            said = await self._get(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
            if said.get("issuer") != self._issuer:
                raise BadLogin("the provider calls itself by another name than TENURE_WEB_OIDC_ISSUER")
            self._said, self._said_at = said, time.monotonic()
        address = self._said.get(name)
        try:
            return check_address(address if isinstance(address, str) else "", name)
        except BadSettings as error:
            raise BadLogin(f"the provider names no address that can be trusted ({error})") from None

    async def claims(self, code: str, back: str, verifier: str, nonce: str) -> dict[str, Any]:
        """What it says of the person who came back with this code."""
        asked = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": back,
            "code_verifier": verifier,
            "client_id": self._client,
        }
        endpoint = await self.endpoint("token_endpoint")
        methods = self._said.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        auth = None
        if self._secret and "client_secret_basic" in methods:
            auth = httpx.BasicAuth(quote(self._client, safe=""), quote(self._secret, safe=""))
        elif self._secret:
            asked["client_secret"] = self._secret
        answer = await self._json("POST", endpoint, data=asked, auth=auth)
        return await self._checked(str(answer.get("id_token", "")), nonce)

    async def _checked(self, text: str, nonce: str) -> dict[str, Any]:
        try:
            claims = jwt.decode(text, await self._key_set(), algorithms=ALGORITHMS).claims
        except (JoseError, ValueError):
            try:
                claims = jwt.decode(text, await self._key_set(anew=True), algorithms=ALGORITHMS).claims
            except (JoseError, ValueError):
                raise BadLogin("the provider's word is not signed by one of its keys") from None
        self._check(claims, nonce)
        return claims

    def _check(self, claims: dict[str, Any], nonce: str) -> None:
        now, audience = time.time(), claims.get("aud")
        for_us = audience == self._client or (isinstance(audience, list) and self._client in audience)
        if isinstance(audience, list) and len(audience) > 1:
            for_us = for_us and claims.get("azp") == self._client
        if claims.get("iss") != self._issuer or not for_us:
            raise BadLogin("the provider's word is of another issuer, or meant for another client")
        until, since = claims.get("exp"), claims.get("iat")
        if not isinstance(until, int | float) or not isinstance(since, int | float):
            raise BadLogin("the provider's word has no time")
        if until + LEEWAY_SECONDS < now or since - LEEWAY_SECONDS > now:
            raise BadLogin("the provider's word is too old or too new: check the clocks")
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise BadLogin("the provider's word is for another login")

    async def _key_set(self, *, anew: bool = False) -> KeySet:
        age = time.monotonic() - self._keys_at
        if self._keys is None or age > (AGAIN_SECONDS if anew else KNOWN_SECONDS):
            self._keys_at = time.monotonic()
            found = await self._get(await self.endpoint("jwks_uri"))
            try:
                self._keys = KeySet.import_key_set(found)  # type: ignore[arg-type]
            except (JoseError, ValueError, KeyError, TypeError):
                raise BadLogin("the provider's keys cannot be read") from None
        return self._keys

    async def _get(self, address: str) -> dict[str, Any]:
        return await self._json("GET", address)

    async def _json(self, method: str, address: str, **rest: Any) -> dict[str, Any]:
        try:
            async with httpx.AsyncClient(timeout=ANSWER_SECONDS, follow_redirects=False) as client:
                answer = await client.request(method, address, **rest)
            found = answer.json() if len(answer.content) <= ANSWER_BYTES_MAX else None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError):
            raise BadLogin("the provider does not answer as one: try again, or ask whoever runs it") from None
        if answer.status_code != 200 or not isinstance(found, dict):
            raise BadLogin(f"the provider refused with {answer.status_code}: begin again")
        return found


def check_address(text: str, name: str) -> str:
    """The address; it must be https, but on this machine."""
    try:
        parts = urlsplit(text)
        near = parts.scheme == "http" and is_loopback(parts.hostname or "")
        if (near or parts.scheme == "https") and parts.hostname and not parts.fragment:
            return text
    except ValueError:
        pass
    raise BadSettings(f"{name} must be an address that begins with https://, and is {text[:100]!r}")


def challenge_of(verifier: str) -> str:
    """What PKCE shows of a verifier at first: its SHA-256."""
    return urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
