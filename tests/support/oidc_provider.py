"""A small OpenID provider that speaks the real protocol over HTTP: discovery, code flow with PKCE, signed id_tokens.

`python -m tests.support.oidc_provider` serves on a free port of 127.0.0.1, prints its issuer and ends with its stdin.
Whoever comes to ``/authorize`` is signed in as what was last told to ``/next`` (a JSON object): ``claims`` of the
id_token and of userinfo, ``id_token`` over them, ``signed_by`` for a token that is signed as it should not be, and
``configuration`` over what discovery says.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from croniq_site.kernel.clock import SystemClock

CLIENT_ID, CLIENT_SECRET = "croniq", "the secret of croniq"
KID = "key-1"


class Provider(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server_port}"
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.other_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.next: dict[str, Any] = {}
        self.codes: dict[str, dict[str, Any]] = {}
        self.tokens: dict[str, dict[str, Any]] = {}


class Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        path, query = urlsplit(self.path).path, self._fields(urlsplit(self.path).query)
        if path == "/.well-known/openid-configuration":
            self._json(200, self._configuration())
        elif path == "/jwks":
            jwk = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.server.key.public_key()))
            self._json(200, {"keys": [jwk | {"kid": KID, "use": "sig", "alg": "RS256"}]})
        elif path == "/authorize":
            self._authorize(query)
        elif path == "/userinfo":
            claims = self.server.tokens.get(self.headers.get("Authorization", "").removeprefix("Bearer "))
            self._json(401, {"error": "invalid_token"}) if claims is None else self._json(200, claims)
        else:
            self._json(404, {"error": "not_found"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        if self.path == "/next":
            self.server.next = json.loads(body)
            self._json(200, {})
        elif self.path == "/token":
            self._token(self._fields(body))
        else:
            self._json(404, {"error": "not_found"})

    def _configuration(self) -> dict[str, Any]:
        issuer = self.server.issuer
        return {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/authorize",
            "token_endpoint": f"{issuer}/token",
            "userinfo_endpoint": f"{issuer}/userinfo",
            "jwks_uri": f"{issuer}/jwks",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"],
            **self.server.next.get("configuration", {}),
        }

    def _authorize(self, query: dict[str, str]) -> None:
        is_good = (
            query.get("client_id") == CLIENT_ID
            and query.get("response_type") == "code"
            and query.get("code_challenge_method") == "S256"
            and query.get("code_challenge")
            and "openid" in query.get("scope", "").split()
        )
        if not is_good:
            self._json(400, {"error": "invalid_request"})
            return
        code = secrets.token_urlsafe(16)
        self.server.codes[code] = {"query": query, **self.server.next}
        self.send_response(302)
        answer = urlencode({"code": code, "state": query.get("state", "")})
        self.send_header("Location", f"{query['redirect_uri']}?{answer}")
        self.end_headers()

    def _token(self, form: dict[str, str]) -> None:
        asked = self.server.codes.pop(form.get("code", ""), None)  # once
        verifier = form.get("code_verifier", "").encode()
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier).digest()).rstrip(b"=").decode()
        is_good = (
            asked is not None
            and form.get("grant_type") == "authorization_code"
            and (form.get("client_id"), form.get("client_secret")) == (CLIENT_ID, CLIENT_SECRET)
            and form.get("redirect_uri") == asked["query"]["redirect_uri"]
            and challenge == asked["query"]["code_challenge"]
        )
        if not is_good:
            self._json(400, {"error": "invalid_grant"})
            return
        now = int(SystemClock().now().timestamp())
        claims = {"sub": "1", **asked.get("claims", {})}
        token = claims | {
            "iss": self.server.issuer,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 300,
            "nonce": asked["query"].get("nonce", ""),
            **asked.get("id_token", {}),
        }
        access = secrets.token_urlsafe(16)
        self.server.tokens[access] = claims
        answer = {"access_token": access, "token_type": "Bearer", "expires_in": 300}
        signed = self._signed(token, asked.get("signed_by"))
        self._json(200, answer if signed is None else answer | {"id_token": signed})

    def _signed(self, token: dict[str, Any], by: str | None) -> str | None:
        token = {name: value for name, value in token.items() if value is not None}
        headers = {"kid": KID}
        if by == "not at all":
            return None
        if by == "nobody":
            return jwt.encode(token, None, algorithm="none", headers=headers)
        if by == "the public key":  # a secret that everybody can read
            text = self.server.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
            return jwt.encode(token, text, algorithm="HS256", headers=headers)
        key = self.server.other_key if by == "another" else self.server.key
        return jwt.encode(token, key, algorithm="RS256", headers=headers)

    def _json(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""

    @staticmethod
    def _fields(text: str) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(text).items()}


if __name__ == "__main__":
    provider = Provider()
    threading.Thread(target=provider.serve_forever, daemon=True).start()
    sys.stdout.write(f"{provider.issuer}\n")
    sys.stdout.flush()
    sys.stdin.read()
