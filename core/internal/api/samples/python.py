# Python 3.9 or later. SECRET_KEY is in the server's environment.
import json
import os
import urllib.request


def call(path, body):
    request = urllib.request.Request(
        "BASE_URL" + path,
        data=json.dumps(body).encode(),
        headers={
            "Authorization": "Bearer " + os.environ["SECRET_KEY"],
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request, timeout=10) as response:  # raises HTTPError
        return json.load(response)


def start(state):
    """Store state and session_id with the user's session, then redirect the browser to redirect_url."""
    return call("/api/v1/verify/start", {
        "integration_id": "INTEGRATION_ID",
        "callback_url": "CALLBACK_URL",
        "state": state,
    })


def is_verified(result_token, session_id):
    """In the callback: compare state with the stored one, then exchange result_token.

    session_id is the one that you stored.
    """
    answer = call("/api/v1/verify/validate", {"result_token": result_token})
    return answer["verified"] and answer["session_id"] == session_id
