# A webhook receiver for Python 3.8 and later, without a framework.
# WEBHOOK_SECRET is the secret of the integration; PORT is the port to listen on.
# [check]
import hashlib
import hmac
# [/check]
import json
import os
# [check]
import re
# [/check]
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = os.environ["WEBHOOK_SECRET"]


# [check]
# check returns the reason to reject a request, or None. signature and timestamp are its headers
# X-Service-Signature and X-Service-Timestamp, body is its raw bytes, and now is in Unix seconds.
def check(secret, signature, timestamp, body, now):
    if not secret:
        return "the secret is missing"
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

    # [differing_timestamp]
    if timestamp is not None and timestamp != t:
        return "X-Service-Timestamp differs from t"
    # [end]

    # [good]
    # secret is the secret of this integration; body contains the raw bytes.
    expected = hmac.new(secret.encode(), t.encode() + b"." + body, hashlib.sha256).hexdigest()
    # [end]

    # [bad_signature]
    if not hmac.compare_digest(v1.lower(), expected):
        return "the signature does not match"
    # [end]

    # [stale_timestamp]
    # now is in Unix seconds, time.time(). t is from X-Service-Signature.
    if abs(int(now) - int(t)) > 300:
        return "the signature is too old"
    # [end]
    return None
# [/check]


class Receiver(BaseHTTPRequestHandler):
    timeout = 10  # seconds to wait for a client

    def do_POST(self):
        # [altered_body]
        # Use the raw bytes, before anything parses them.
        # Flask: request.get_data(), not request.json. Django: request.body.
        # FastAPI: await request.body(), not a parameter of a model.
        length = int(self.headers.get("Content-Length", 0))
        if not 0 <= length <= 64 * 1024:
            self.answer(413, "the body is too long")
            return
        body = self.rfile.read(length)
        # [end]

        # A duplicate header has both values.
        signature, timestamp = (", ".join(self.headers.get_all(name, [])) or None
                                for name in ("X-Service-Signature", "X-Service-Timestamp"))
        wrong = check(SECRET, signature, timestamp, body, time.time())
        if wrong:
            self.answer(401, wrong)
            return
        event = json.loads(body)
        # Add the event to a queue, once for each idempotency_key.
        print(event["type"], event["idempotency_key"])
        self.answer(204, "")

    def answer(self, status, text):
        self.send_response(status)
        if text:
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Receiver).serve_forever()
