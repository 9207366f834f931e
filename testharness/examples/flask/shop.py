# A shop that sells to adults, with Flask. README.md in the folder above says how to run it.
import json
import os
import secrets
import time
import urllib.error
import urllib.request

from check import check
from flask import Flask, abort, make_response, redirect, request

VERGE_URL = os.environ["VERGE_URL"]
PORT = int(os.environ.get("PORT", "3000"))
ORIGIN = f"http://localhost:{PORT}"

app = Flask(__name__)
app.config["MAX_CONTENT_LENGTH"] = 64 * 1024

# What the shop remembers, by the id in a visitor's cookie. A real shop has its own sessions and a database.
visitors = {}
seen = set()


def verge(path, body):
    """Returns the answer of the API, which has a code if it is an error."""
    call = urllib.request.Request(VERGE_URL + path, json.dumps(body).encode(), {
        "Authorization": "Bearer " + os.environ["VERGE_SECRET_KEY"], "Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(call, timeout=20) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return json.load(error)


def visitor():
    return visitors.get(request.cookies.get("shop"))


@app.get("/")
def home():
    who = visitor()
    if who and who["verified"]:
        return "<h1>Welcome</h1><p>Your age is verified.</p>"
    form = '<form method="post" action="/verify"><button>Verify my age</button></form>'
    page = make_response("<h1>For adults</h1>" + form)
    if not who:
        name = secrets.token_hex(16)
        visitors[name] = {"states": {}, "verified": False}
        # Lax, because the browser comes back from another site.
        page.set_cookie("shop", name, httponly=True, samesite="Lax")
    return page


@app.post("/verify")
def verify():
    who = visitor() or abort(400, "Open the shop first.")
    state = secrets.token_hex(16)
    started = verge("/api/v1/verify/start", {
        "integration_id": os.environ["VERGE_INTEGRATION"], "callback_url": ORIGIN + "/return", "state": state})
    if "redirect_url" not in started:
        abort(502, f"The verification cannot begin: {started['code']}.")
    who["states"][state] = started["session_id"]
    return redirect(started["redirect_url"], 303)


@app.get("/return")
def back():
    who = visitor() or abort(400, "Open the shop first.")
    session = request.args.get("session_id")
    # Only this browser's own verification counts, and only once.
    if not session or who["states"].pop(request.args.get("state"), None) != session:
        abort(400, "Not yours.")
    result = verge("/api/v1/verify/validate", {"result_token": request.args.get("result_token")})
    if not result.get("verified") or result["session_id"] != session:
        abort(403, f"Not verified: {result.get('code')}.")
    who["verified"] = True
    return redirect("/", 303)


@app.post("/hook")
def hook():
    # The signature is over the raw bytes, so nothing may parse them before.
    body = request.get_data()
    wrong = check(os.environ["WEBHOOK_SECRET"], request.headers.get("X-Service-Signature"),
                  request.headers.get("X-Service-Timestamp"), body, time.time())
    if wrong:
        return wrong, 401
    event = json.loads(body)
    if event["idempotency_key"] not in seen:
        seen.add(event["idempotency_key"])
        print("event", event["type"], event["session_id"], flush=True)
    return "", 204


if __name__ == "__main__":
    app.run("localhost", PORT)
