# A shop that sells to adults, with Flask. README.md in the parent folder explains how to run it.
import os
import secrets

from flask import Flask, abort, make_response, redirect, request
from verge_id import ApiError, SignatureError, Verge, VergeError, verify_event

PORT = int(os.environ.get("PORT", "3000"))
ORIGIN = f"http://localhost:{PORT}"

verge = Verge(os.environ["VERGE_URL"], secret_key=os.environ["VERGE_SECRET_KEY"])
app = Flask(__name__)
app.config["MAX_CONTENT_LENGTH"] = 64 * 1024

# The shop's memory, by the id in a visitor's cookie. A real shop has its own sessions and a database.
visitors = {}
seen = set()


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
    started = verge.start(integration_id=os.environ["VERGE_INTEGRATION"], callback_url=ORIGIN + "/return", state=state)
    who["states"][state] = started["session_id"]
    return redirect(started["redirect_url"], 303)


@app.get("/return")
def back():
    who = visitor() or abort(400, "Open the shop first.")
    session = request.args.get("session_id")
    # Only this browser's own verification counts, and only once.
    if not session or who["states"].pop(request.args.get("state"), None) != session:
        abort(400, "Not yours.")
    result = verge.validate(request.args.get("result_token", ""))
    if not result["verified"] or result["session_id"] != session:
        abort(403, "Not verified.")
    who["verified"] = True
    return redirect("/", 303)


@app.post("/hook")
def hook():
    # The signature is over the raw bytes, so they must not be parsed before.
    event = verify_event(os.environ["WEBHOOK_SECRET"], request.headers, request.get_data())
    if event["idempotency_key"] not in seen:
        seen.add(event["idempotency_key"])
        print("event", event["type"], event["session_id"], flush=True)
    return "", 204


@app.errorhandler(VergeError)
def failed(error):
    if isinstance(error, SignatureError):
        return str(error), 401
    app.logger.error("%s", error)
    code = error.code if isinstance(error, ApiError) else "no response"
    return f"The verification is not possible: {code}.", 502


if __name__ == "__main__":
    app.run("localhost", PORT)
