# The check of a webhook, as /docs has it.
import hashlib
import hmac
import re
# check returns what is wrong with a request, or None if it is good. signature and timestamp are its headers
# X-Service-Signature and X-Service-Timestamp, body is its raw bytes, and now is in Unix seconds.
def check(secret, signature, timestamp, body, now):
    if not secret:
        return "there is no secret"
    if not signature or len(signature) > 1024:
        return "the signature header is missing or too long"
    fields = {}
    for element in signature.split(","):
        name, equals, value = element.strip(" \t").partition("=")
        if not equals or name in fields:
            return "the signature header is malformed"
        fields[name] = value
    t, v1 = fields.get("t", ""), fields.get("v1", "")
    if not re.fullmatch("0|[1-9][0-9]{0,11}", t) or not re.fullmatch("[0-9a-fA-F]{64}", v1):
        return "the signature header is malformed"

    if timestamp is not None and timestamp != t:
        return "X-Service-Timestamp is not t"

    # secret is the one of this integration; body is the raw bytes.
    expected = hmac.new(secret.encode(), t.encode() + b"." + body, hashlib.sha256).hexdigest()

    if not hmac.compare_digest(v1.lower(), expected):
        return "the signature does not match"

    # now is in Unix seconds, time.time(). t is that of X-Service-Signature.
    if abs(int(now) - int(t)) > 300:
        return "the signature is too old"
    return None
