"""A client of the Verge verification API, and the verification of its webhook events.

It uses the standard library alone. A server creates one client and uses it from any thread:

    verge = Verge("https://verify.example.com", secret_key=os.environ["VERGE_SECRET_KEY"])
    started = verge.start(integration_id=..., callback_url="https://shop.example/return", state=state)
    # Send the browser to started["redirect_url"]. When it is back at callback_url:
    result = verge.validate(result_token)
    verified = result["verified"] and result["session_id"] == started["session_id"]
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import random
import re
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from http.client import HTTPException
from typing import Any, Dict, List, Literal, Mapping, Optional, Sequence, Tuple, TypedDict, Union

__all__ = [
    "ApiError", "ConnectionFailed", "Event", "Session", "SignatureError", "StartResponse", "ValidateResponse",
    "Verge", "VergeError", "verify_event", "verify_signature",
]

Language = Literal["en", "de", "es", "fr", "pt", "it"]
Level = Literal["L1", "L2"]
FailureCode = Literal["PROVIDER_REJECTED", "USER_CANCELLED", "TIMEOUT", "MAX_ATTEMPTS", "UNKNOWN"]
EventType = Literal["verification.started", "verification.completed", "verification.failed",
                    "verification.expired", "verification.cancelled", "webhook.failing"]


class StartResponse(TypedDict):
    session_id: str
    redirect_url: str  # send the user's browser here, unchanged
    expires_at: str


class ValidateResponse(TypedDict):
    valid: bool
    verified: bool
    level: Level
    challenge_age: float
    session_id: str
    integration_id: str
    validated_at: str


class Session(TypedDict):
    session_id: str
    status: Literal["PENDING", "COMPLETED", "FAILED", "EXPIRED"]
    verified: Optional[bool]
    failure_code: Optional[FailureCode]
    failure_reason: Optional[str]
    level: Level
    challenge_age: float
    completed_at: Optional[str]
    expires_at: str
    result_available: bool


class Result(TypedDict):
    verified: bool
    level: Level
    challenge_age: float


class Failure(TypedDict):
    code: FailureCode
    message: str


class EventData(TypedDict, total=False):
    """The fields of all types. ``status`` is always present."""

    status: Literal["started", "completed", "failed", "expired", "cancelled", "failing"]
    expires_at: str  # started, expired
    since: str  # failing: the first failed attempt since the last delivery
    result: Result  # completed
    failure: Failure  # failed
    external_user_id: str
    publisher_state: str
    message: str  # only in a test event


class _OfSession(TypedDict, total=False):
    session_id: str  # absent from webhook.failing, an alert to the alert_url


class Event(_OfSession):
    id: str
    type: EventType
    created_at: str
    schema_version: str
    publisher_id: str
    integration_id: str  # the UUID with the prefix int_
    test: bool  # True if a test of the webhook sent it
    idempotency_key: str  # drop events whose key you have seen
    data: EventData


class VergeError(Exception):
    """The class of all errors of this package."""


class ApiError(VergeError):
    """The service returned an error. Branch on ``code``, never on the text.

    ``code`` is None if the response is not one of the service, such as the error page of a proxy.
    """

    def __init__(self, status: int, code: Optional[str], message: str, request_id: Optional[str] = None,
                 details: Sequence[Mapping[str, str]] = (), session_id: Optional[str] = None,
                 retry_after: Optional[float] = None) -> None:
        super().__init__(f"{code or status}: {message}")
        self.status, self.code, self.message, self.request_id = status, code, message, request_id
        self.details, self.session_id, self.retry_after = details, session_id, retry_after


class ConnectionFailed(VergeError):
    """No complete response came: a network error, or the time limit. ``__cause__`` has the reason."""


class SignatureError(VergeError):
    """A webhook request is not authentic, or it is too old. Respond with 401.

    ``step`` is the step of the algorithm in the documentation, 1 to 6.
    """

    status = 401

    def __init__(self, step: int, message: str) -> None:
        super().__init__(message)
        self.step = step


_MAX_RESPONSE = 64 * 1024
_API = "/api/v1/verify/"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the key must not reach another host."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Verge:
    """A client with the secret key of a publisher.

    ``timeout`` is the number of seconds for each network operation of an attempt, ``retries`` how many times a
    request may be repeated, and ``max_wait`` the longest wait before a repetition in seconds.
    """

    def __init__(self, base_url: str, *, secret_key: str, timeout: float = 10, retries: int = 2,
                 max_wait: float = 10) -> None:
        try:
            url = urllib.parse.urlsplit(base_url)
            scheme, host = url.scheme, url.hostname or ""
        except ValueError:
            scheme, host = "", ""
        loopback = re.fullmatch(r"localhost|127(\.\d+){3}|::1|.*\.localhost", host)
        if not host or scheme != "https" and not (scheme == "http" and loopback):
            raise VergeError(f"base_url must begin with https://, or with http:// and a loopback host: {base_url}")
        self._base = f"{scheme}://{url.netloc.rpartition('@')[2]}"
        if base_url.rstrip("/").lower() != self._base.lower():
            raise VergeError(f"base_url must be just {self._base}")
        # White space of a file or variable does not count. Errors must not contain the key.
        secret_key = (secret_key or "").strip("\ufeff \t\r\n")
        if not re.fullmatch("[!-~]+", secret_key):
            raise VergeError("secret_key is missing, or has a character that no key has")
        self._key, self._timeout, self._retries, self._max_wait = secret_key, timeout, retries, max_wait
        self._open = urllib.request.build_opener(_NoRedirect).open

    def start(self, *, integration_id: str, callback_url: str, state: Optional[str] = None,
              external_user_id: Optional[str] = None, language: Optional[Language] = None,
              idempotency_key: Optional[str] = None) -> StartResponse:
        """Starts a session. Send the browser to ``redirect_url``.

        ``state`` is unguessable. Store it, and compare it when the browser comes back.
        """
        body = {"integration_id": integration_id, "callback_url": callback_url, "state": state,
                "external_user_id": external_user_id, "language": language}
        given = {name: value for name, value in body.items() if value is not None}
        return self._send("start", given, idempotency_key)  # type: ignore[return-value]

    def validate(self, result_token: str, *, idempotency_key: Optional[str] = None) -> ValidateResponse:
        """Exchanges the result token of a callback for the result. A token works once.

        Accept the result only if its ``session_id`` is the one that ``start`` returned.
        """
        return self._send("validate", {"result_token": result_token}, idempotency_key)  # type: ignore[return-value]

    def reconcile(self, session_id: str) -> Session:
        """Returns the state of a session, for recovery. It replaces neither events nor ``validate``."""
        return self._send("sessions/" + urllib.parse.quote(session_id, safe=""))  # type: ignore[return-value]

    def _send(self, path: str, body: Optional[Mapping[str, Any]] = None, idempotency_key: Optional[str] = None) -> Any:
        headers = {"Authorization": "Bearer " + self._key}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
            headers["Idempotency-Key"] = idempotency_key or str(uuid.uuid4())
            if not re.fullmatch("[ -~]{1,255}", headers["Idempotency-Key"]):
                raise VergeError("idempotency_key must be 1 to 255 printable ASCII characters")
        attempt = 0
        while True:
            try:
                return self._once(urllib.request.Request(self._base + _API + path, data, headers))
            except VergeError as error:
                wait = _wait_before(error, attempt)
                if wait is None or wait > self._max_wait or attempt >= self._retries:
                    raise
            attempt += 1
            time.sleep(wait)

    def _once(self, request: urllib.request.Request) -> Any:
        try:
            try:
                response = self._open(request, timeout=self._timeout)
            except urllib.error.HTTPError as error:
                response = error  # it is a response, too
            with response:
                status, headers, text = response.status, response.headers, response.read(_MAX_RESPONSE + 1)
                rest = response.length  # read with a limit returns what came, without an error
        except (OSError, HTTPException) as error:
            raise ConnectionFailed(f"no response from {request.host}: {error}") from error
        if len(text) > _MAX_RESPONSE:
            raise ConnectionFailed(f"the response of {request.host} is longer than {_MAX_RESPONSE} bytes")
        if rest:
            raise ConnectionFailed(f"the response of {request.host} ended {rest} bytes early")
        answer: Any = None
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            pass  # the error below names it
        if status == 200 and isinstance(answer, dict):
            return answer
        raise _error_of(status, headers, answer if isinstance(answer, dict) else {})


def _error_of(status: int, headers: Mapping[str, str], answer: Dict[str, Any]) -> ApiError:
    # An error of the service has its code twice. A proxy may respond with other JSON.
    if not isinstance(answer.get("code"), str) or answer["code"] != answer.get("error_code"):
        answer = {}
    try:
        retry_after: Optional[float] = float(headers.get("Retry-After") or "")
    except ValueError:
        retry_after = None
    message = answer.get("error") or f"HTTP status {status}, not a response of Verge"
    return ApiError(status, answer.get("code"), message, headers.get("X-Request-Id"), answer.get("details") or (),
                    answer.get("session_id"), retry_after)


def _wait_before(error: VergeError, attempt: int) -> Optional[float]:
    """Returns the seconds before a repetition, or None if the request must not be repeated."""
    backoff = 0.25 * 2**attempt * (0.5 + random.random())
    if isinstance(error, ConnectionFailed):
        return backoff
    if not isinstance(error, ApiError):
        return None
    # With 429 and 503 nothing was granted. A proxy's error leaves that open, and the idempotency key covers it.
    of_proxy = error.code is None and error.status in (429, 502, 503, 504)
    if error.code not in ("RATE_LIMITED", "UNAVAILABLE") and not of_proxy:
        return None
    return max(backoff, error.retry_after or 0)


def verify_event(secret: Union[str, Sequence[str]], headers: Any, body: bytes, *, tolerance: int = 300,
                 now: Optional[float] = None) -> Event:
    """Verifies a webhook request and returns its event.

    ``headers`` is the mapping of a framework, and ``body`` the raw body, before anything has parsed it. Give
    several secrets while you change them. ``now`` is in Unix seconds, by default the clock. It raises a
    SignatureError if no secret fits or the request is too old: respond with 401.
    """
    verify_signature(secret, headers, body, tolerance=tolerance, now=now)
    try:
        return json.loads(body)
    except ValueError as error:
        raise VergeError("the signed body is not JSON") from error


def verify_signature(secret: Union[str, Sequence[str]], headers: Any, body: bytes, *, tolerance: int = 300,
                     now: Optional[float] = None) -> None:
    """Does the same without reading the body."""
    if not isinstance(body, (bytes, bytearray)):
        raise VergeError("body must be the raw body, in bytes")
    t, v1 = _parse_signature(_one(headers, "x-service-signature", 1024) or "")
    if _one(headers, "x-service-timestamp", 1024) not in (None, t):
        raise SignatureError(2, "X-Service-Timestamp differs from t")
    secrets = [secret] if isinstance(secret, str) else list(secret or ())
    if not secrets or not all(secrets):
        raise SignatureError(4, "no webhook secret given")
    failed: Optional[SignatureError] = None
    for each in secrets:
        if _hmac(each.encode(), t.encode() + b".", body, v1):
            failed = _standard_problem(each, headers, t, body)
        elif each != each.strip():
            failed = SignatureError(5, "v1 does not match: the secret has white space at its ends")
        else:
            failed = SignatureError(5, "v1 does not match: check the secret, and that body is the raw body")
        if failed is None:
            break
    if failed is not None:
        raise failed
    if abs(int(time.time() if now is None else now) - int(t)) > tolerance:
        raise SignatureError(6, f"t is more than {tolerance} s from the clock")


def _parse_signature(header: str) -> Tuple[str, bytes]:
    fields: Dict[str, str] = {}
    for element in header.split(","):
        name, equals, value = element.strip(" \t").partition("=")
        if not equals or name in fields:
            raise SignatureError(1, "X-Service-Signature is missing or malformed")
        fields[name] = value
    t, v1 = fields.get("t", ""), fields.get("v1", "")
    if not re.fullmatch("0|[1-9][0-9]{0,11}", t) or not re.fullmatch("[0-9a-fA-F]{64}", v1):
        raise SignatureError(1, "X-Service-Signature has no valid t or v1")
    return t, bytes.fromhex(v1)


# 32 bytes in base64. The last digit has four bits.
_BASE64 = "[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]="


def _standard_problem(secret: str, headers: Any, t: str, body: bytes) -> Optional[SignatureError]:
    """Returns what is wrong with the headers of Standard Webhooks, if the request and the secret have them."""
    if not re.fullmatch("whsec_" + _BASE64, secret):
        return None
    names = (("webhook-id", 256), ("webhook-timestamp", 12), ("webhook-signature", 1024))
    event_id, timestamp, signatures = (_one(headers, name, limit) for name, limit in names)
    if event_id is None and timestamp is None and signatures is None:
        return None
    if not event_id or not timestamp or not signatures:
        return SignatureError(1, "a header of Standard Webhooks is missing")
    if timestamp != t:
        return SignatureError(2, "webhook-timestamp differs from t")
    key, prefix = base64.b64decode(secret[6:]), f"{event_id}.{t}.".encode()
    for signature in signatures.split(" "):
        if re.fullmatch("v1," + _BASE64, signature) and _hmac(key, prefix, body, base64.b64decode(signature[3:])):
            return None
    return SignatureError(5, "no signature in webhook-signature matches")


def _hmac(key: bytes, prefix: bytes, body: bytes, given: bytes) -> bool:
    return hmac.compare_digest(hmac.new(key, prefix + body, hashlib.sha256).digest(), given)


def _one(headers: Any, name: str, limit: int) -> Optional[str]:
    """Returns the value of a header that may occur once."""
    values: List[str] = []
    for key, value in headers.items():
        if key.lower() == name:
            values += [value] if isinstance(value, str) else value
    if len(values) > 1 or values and len(values[0]) > limit:
        raise SignatureError(1, f"{name} occurs more than once or is too long")
    return values[0] if values else None
