# Runs the calls in its input with the SDK of Python, and prints the outcomes. sdk_test.go has the cases.
import base64
import json
import sys
import typing
from concurrent.futures import ThreadPoolExecutor

import verge_id
from verge_id import Verge, VergeError, verify_event, verify_signature


def outcome(run):
    try:
        return {"result": run()}
    except VergeError as error:
        get = lambda name: getattr(error, name, None)
        kind = {"ConnectionFailed": "ConnectionError"}.get(type(error).__name__, type(error).__name__)
        return {"kind": kind, "status": get("status"), "code": get("code"), "request_id": get("request_id"),
                "retry_after": get("retry_after"), "session_id": get("session_id"), "step": get("step"),
                "fields": [detail["field"] for detail in get("details") or ()],
                "leaks": "svc_sk_" in f"{error} {error.__cause__}"}


def call(each):
    verge = Verge(each["base_url"], secret_key=each["secret_key"], timeout=each["timeout"], max_wait=1.5)
    if each["does"] == "start":
        return verge.start(**each["args"])
    if each["does"] == "validate":
        return verge.validate(each["args"]["token"])
    return verge.reconcile(each["args"]["session"])


def verify(each):
    options = {"tolerance": each["tolerance"]} if each["tolerance"] else {}
    verify_signature(each["secret"], each["headers"], base64.b64decode(each["body"]), now=each["now"], **options)


def white_secret(each):
    try:
        verify_signature(each["secret"] + "\n", each["headers"], b"")
    except VergeError as error:
        return str(error)


def fields(kind):
    """Returns the fields of a TypedDict: whether each may be null, and the values of a Literal."""
    found = {}
    for name, hint in typing.get_type_hints(kind).items():
        options = typing.get_args(hint) if typing.get_origin(hint) is typing.Union else (hint,)
        values = [value for option in options if typing.get_origin(option) is typing.Literal
                  for value in typing.get_args(option)]
        found[name] = {"null": type(None) in options, "values": sorted(values)}
    return found


given = json.load(sys.stdin)
first = given["requests"][0]
with ThreadPoolExecutor(32) as pool:
    calls = list(pool.map(lambda each: outcome(lambda: call(each)), given["calls"]))
json.dump({
    "requests": [outcome(lambda: verify(each)) for each in given["requests"]],
    "calls": calls,
    "event": outcome(lambda: verify_event(["whsec_other", first["secret"]], first["headers"],
                                          base64.b64decode(first["body"]), now=first["now"])),
    "no_secret": outcome(lambda: verify_signature(None, first["headers"], b"")),
    "white_secret": white_secret(first),
    "parsed_body": outcome(lambda: verify_event(first["secret"], first["headers"], {})),
    "types": {name: fields(getattr(verge_id, name)) for name in
              ("StartResponse", "ValidateResponse", "Session", "Result", "Failure", "Event", "EventData")},
}, sys.stdout)
