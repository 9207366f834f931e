#!/bin/sh
# The steps from no publisher to a verified session, only by the operators' API. It needs sh, curl and GNU
# sed, and a server with the sandbox, such as `verge dev`:
#
#   VERGE_ADMIN_URL       the operators' listener
#   VERGE_OPERATOR_TOKEN  an operator token
#   WEBHOOK_URL           a receiver that checks signatures with WEBHOOK_SECRET
#   WEBHOOK_SECRET        the webhook's secret
#   METHOD                the name of a method that verifies users; the default is bank
#   CARELESS_URL          if set: a receiver that also checks them, but not the timestamp
set -eu
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT

# call METHOD PATH [BODY] calls the server, stores the response in $here/response, and fails unless the status is 200.
call() {
	code=$(curl -sS -o "$here/response" -w '%{http_code}' -X "$1" \
		-H "Authorization: Bearer $VERGE_OPERATOR_TOKEN" -H 'Content-Type: application/json' -H 'If-Match: *' \
		-d "${3:-}" "$VERGE_ADMIN_URL/admin/v1/$2")
	if [ "$code" != "${want:-200}" ]; then
		echo "$1 $2 returned $code:" >&2
		cat "$here/response" >&2
		exit 1
	fi
}

# field NAME prints the first field of that name in the response.
field() { sed -n 's/[{,]"'"$1"'":"\([^"]*\)".*/\n\1/;T;s/.*\n//p' "$here/response" | head -n 1; }

# contains TEXT fails unless the response contains the text.
contains() {
	if ! grep -qF -- "$1" "$here/response"; then
		echo "the response lacks $1:" >&2
		cat "$here/response" >&2
		exit 1
	fi
}

# until_contains TEXT PATH calls until the response contains the text, for half a minute.
until_contains() {
	tries=0
	call GET "$2"
	until grep -qF -- "$1" "$here/response" || [ $((tries += 1)) -gt 100 ]; do
		sleep 0.3
		call GET "$2"
	done
	contains "$1"
}

echo '1. A publisher, and an invitation for its first member.'
call POST publishers '{"name":"Walk by curl"}'
publisher=$(field id)
call POST invitations "{\"publisher_id\":\"$publisher\",\"name\":\"Ada\",\"role\":\"admin\"}"
contains '/console/invitation?invitation=vrg_inv_'

echo '2. An integration with a webhook.'
call POST integrations "{\"publisher_id\":\"$publisher\",\"name\":\"Age\",\"level\":\"L1\",\"challenge_age\":25,
	\"methods\":[\"sandbox\"],\"webhook_url\":\"$WEBHOOK_URL\"}"
integration=$(field id)
made=$(field secret)

echo '3. The receiver does not have the generated secret, so the test fails.'
call POST "integrations/$integration/test"
contains '"status":"NOT_READY"'

echo '4. With the secret of the receiver it passes, unless the receiver accepts old events.'
call PATCH "integrations/$integration" "{\"webhook_secret\":\"$WEBHOOK_SECRET\"}"
if [ -n "$made" ] && grep -qF "$made" "$here/response"; then
	echo 'a secret is shown twice' >&2
	exit 1
fi
if [ -n "${CARELESS_URL:-}" ]; then
	call PATCH "integrations/$integration" "{\"webhook_url\":\"$CARELESS_URL\"}"
	call POST "integrations/$integration/test"
	contains '"status":"NOT_READY"'
	contains '"reasons":["stale_timestamp: '
	call PATCH "integrations/$integration" "{\"webhook_url\":\"$WEBHOOK_URL\"}"
fi
call POST "integrations/$integration/test"
contains '"status":"READY"'

echo '5. Each test event arrives.'
for type in started completed failed expired cancelled; do
	call POST "integrations/$integration/test-event" "{\"type\":\"verification.$type\"}"
	contains '"delivered":true'
done

echo '6. A key and a session.'
call POST keys "{\"publisher_id\":\"$publisher\"}"
key=$(field key)
call POST "integrations/$integration/test-session" '{"callback_url":"https://shop.example/callback"}'
session=$(field session_id)
redirect=$(field redirect_url | sed 's/\\u0026/\&/g')

echo '7. A user opens the page and is approved.'
curl -sS -c "$here/jar" -o "$here/page" "$redirect"
sed 's/<form/\n<form/g' "$here/page" | sed -n '/data-outcome="approve"/,/<\/form>/p' | tr '\n' ' ' |
	sed 's/<\/form>.*//; s/<input/\n<input/g' |
	sed -n 's/.*type="hidden" name="\([^"]*\)" value="\([^"]*\)".*/\1=\2/p' >"$here/fields"
set --
while IFS= read -r field; do set -- "$@" --data-urlencode "$field"; done <"$here/fields"
base=${redirect%%/verify*}
curl -sS -b "$here/jar" -o /dev/null "$@" "$base/verify"

echo '8. The session is found, with its events.'
call GET "sessions/$session"
contains '"status":"COMPLETED"'
call GET "deliveries?integration_id=$integration"
contains 'verification.completed'

echo '9. An event that the receiver rejects fails, and arrives after it is sent again.'
call PATCH "integrations/$integration" "{\"webhook_url\":\"${WEBHOOK_URL%/*}/nowhere\"}"
call POST "integrations/$integration/test-session" '{"callback_url":"https://shop.example/callback"}'
until_contains '"reason":"refused"' "deliveries?integration_id=$integration&state=dead"
place=$(field place)
call PATCH "integrations/$integration" "{\"webhook_url\":\"$WEBHOOK_URL\"}"
call POST "deliveries/$place/resend?integration_id=$integration" '{}'
until_contains '"state":"delivered"' "deliveries/$place?integration_id=$integration"

echo '10. A new secret is staged; the present one stays active until the new one was tested.'
call POST "integrations/$integration/rotate" '{"staged":true}'
call POST "integrations/$integration/test?staged=1"
contains '"status":"NOT_READY"'
call POST "integrations/$integration/test-event" '{"type":"verification.completed"}'
contains '"delivered":true'
call POST "integrations/$integration/drop" '{}'
call POST "integrations/$integration/stage" "{\"webhook_secret\":\"$WEBHOOK_SECRET\"}"
call POST "integrations/$integration/test?staged=1"
contains '"promoted":true'

echo '11. Another method replaces the sandbox. In dev no method verifies users.'
call GET "publishers/$publisher/overview"
contains '"name":"key","done":true'
contains '"name":"method","done":false'
call PATCH "integrations/$integration" "{\"methods\":[\"${METHOD:-bank}\"]}"
call GET "publishers/$publisher/overview"
contains '"name":"method","done":false'

echo '12. A viewer can read, and cannot change anything.'
call POST operators '{"name":"Walk by curl","role":"viewer"}'
viewer=$(field token)
operator=$(sed -n 's/.*"id":"\(op_[^"]*\)".*/\1/p' "$here/response")
(
	VERGE_OPERATOR_TOKEN=$viewer
	call GET "integrations/$integration"
	want=403
	call POST keys "{\"publisher_id\":\"$publisher\"}"
)
call POST "operators/$operator/revoke" '{}'

echo '13. The audit contains each operation with its actor, and no secret.'
call GET "audit?publisher_id=$publisher"
contains '"operation":"integration.create"'
for secret in "$made" "$WEBHOOK_SECRET" "$key"; do
	if grep -qF "$secret" "$here/response"; then
		echo 'the audit contains a secret' >&2
		exit 1
	fi
done

echo '14. The publisher is archived.'
call POST "publishers/$publisher/archive" '{}'
want=400 call POST keys "{\"publisher_id\":\"$publisher\"}"
echo 'Done.'
