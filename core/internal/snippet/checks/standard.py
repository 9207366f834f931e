import base64
import hashlib
import hmac
import re


# check_standard returns the reason to reject a request, or None. id, timestamp and signatures are its headers
# webhook-id, webhook-timestamp and webhook-signature, body is its raw bytes, and now is in Unix seconds.
def check_standard(secret, id, timestamp, signatures, body, now):
    if not re.fullmatch("whsec_[A-Za-z0-9+/]{43}=", secret):
        return "the secret is not whsec_ and the base64 of 32 bytes"
    if not id or len(id) > 256:
        return "webhook-id is missing or too long"
    if not re.fullmatch("[0-9]{1,12}", timestamp or ""):
        return "webhook-timestamp is not a time"
    if not signatures or len(signatures) > 1024:
        return "webhook-signature is missing or too long"

    key = base64.b64decode(secret[len("whsec_"):])
    mac = hmac.new(key, f"{id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    expected = b"v1," + base64.b64encode(mac)
    # There are two signatures while a change of the secret is staged.
    if not any(hmac.compare_digest(given.encode(), expected) for given in signatures.split(" ")):
        return "no signature matches"

    if abs(int(now) - int(timestamp)) > 300:
        return "the signature is too old"
    return None
