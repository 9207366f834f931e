#!/bin/sh
# A publisher from nothing to a verified session, by the operators' API alone. It needs sh, curl and GNU
# sed, and a server with the sandbox, such as `verge dev`:
#
#   VERGE_ADMIN_URL       the operators' listener
#   VERGE_OPERATOR_TOKEN  an operator token
#   WEBHOOK_URL           a receiver that checks signatures with WEBHOOK_SECRET
#   WEBHOOK_SECRET        the webhook's secret
#   METHOD                the name of a method that verifies people; without it, bank
#   CARELESS_URL          if set: a receiver that checks them too, and skips the check of the timestamp
set -eu
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT

# call METHOD PATH [BODY] asks the server, keeps the answer in $here/answer, and fails unless it is 200.
call() {
	code=$(curl -sS -o "$here/answer" -w '%{http_code}' -X "$1" \
		-H "Authorization: Bearer $VERGE_OPERATOR_TOKEN" -H 'Content-Type: application/json' -H 'If-Match: *' \
		-d "${3:-}" "$VERGE_ADMIN_URL/admin/v1/$2")
	if [ "$code" != "${want:-200}" ]; then
		echo "$1 $2 answered $code:" >&2
		cat "$here/answer" >&2
		exit 1
	fi
}

# member NAME prints the first member of that name in the answer.
member() { sed -n 's/[{,]"'"$1"'":"\([^"]*\)".*/\n\1/;T;s/.*\n//p' "$here/answer" | head -n 1; }

# says TEXT fails unless the answer contains the text.
says() {
	if ! grep -qF -- "$1" "$here/answer"; then
		echo "the answer lacks $1:" >&2
		cat "$here/answer" >&2
		exit 1
	fi
}

# until_says TEXT PATH asks until the answer contains the text, for half a minute.
until_says() {
	tries=0
	call GET "$2"
	until grep -qF -- "$1" "$here/answer" || [ $((tries += 1)) -gt 100 ]; do
		sleep 0.3
		call GET "$2"
	done
	says "$1"
}

echo '1. A publisher, and an invitation for its first member.'
call POST publishers '{"name":"Walk by curl"}'
publisher=$(member id)
call POST invitations "{\"publisher_id\":\"$publisher\",\"name\":\"Ada\",\"role\":\"admin\"}"
says '/console/invitation?invitation=vrg_inv_'

echo '2. An integration with a webhook.'
call POST integrations "{\"publisher_id\":\"$publisher\",\"name\":\"Age\",\"level\":\"L1\",\"challenge_age\":25,
	\"methods\":[\"sandbox\"],\"webhook_url\":\"$WEBHOOK_URL\"}"
integration=$(member id)
made=$(member secret)

echo '3. The receiver does not have the secret that was made, so the test fails.'
call POST "integrations/$integration/test"
says '"status":"NOT_READY"'

echo '4. With the secret of the receiver it passes, unless the receiver takes old events.'
call PATCH "integrations/$integration" "{\"webhook_secret\":\"$WEBHOOK_SECRET\"}"
if [ -n "$made" ] && grep -qF "$made" "$here/answer"; then
	echo 'a secret is shown twice' >&2
	exit 1
fi
if [ -n "${CARELESS_URL:-}" ]; then
	call PATCH "integrations/$integration" "{\"webhook_url\":\"$CARELESS_URL\"}"
	call POST "integrations/$integration/test"
	says '"status":"NOT_READY"'
	says '"reasons":["stale_timestamp: '
	call PATCH "integrations/$integration" "{\"webhook_url\":\"$WEBHOOK_URL\"}"
fi
call POST "integrations/$integration/test"
says '"status":"READY"'

echo '5. Each test event arrives.'
for type in started completed failed expired cancelled; do
	call POST "integrations/$integration/test-event" "{\"type\":\"verification.$type\"}"
	says '"delivered":true'
done

echo '6. A key, and with it a session.'
call POST keys "{\"publisher_id\":\"$publisher\"}"
key=$(member key)
call POST "integrations/$integration/test-session" '{"callback_url":"https://shop.example/callback"}'
session=$(member session_id)
redirect=$(member redirect_url | sed 's/\\u0026/\&/g')

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
says '"status":"COMPLETED"'
call GET "deliveries?integration_id=$integration"
says 'verification.completed'

echo '9. An event that the receiver refuses is given up, and arrives when it is sent again.'
call PATCH "integrations/$integration" "{\"webhook_url\":\"${WEBHOOK_URL%/*}/nowhere\"}"
call POST "integrations/$integration/test-session" '{"callback_url":"https://shop.example/callback"}'
until_says '"reason":"refused"' "deliveries?integration_id=$integration&state=dead"
place=$(member place)
call PATCH "integrations/$integration" "{\"webhook_url\":\"$WEBHOOK_URL\"}"
call POST "deliveries/$place/resend?integration_id=$integration" '{}'
until_says '"state":"delivered"' "deliveries/$place?integration_id=$integration"

echo '10. A new secret is staged; the present one goes on until the new one was tested.'
call POST "integrations/$integration/rotate" '{"staged":true}'
call POST "integrations/$integration/test?staged=1"
says '"status":"NOT_READY"'
call POST "integrations/$integration/test-event" '{"type":"verification.completed"}'
says '"delivered":true'
call POST "integrations/$integration/drop" '{}'
call POST "integrations/$integration/stage" "{\"webhook_secret\":\"$WEBHOOK_SECRET\"}"
call POST "integrations/$integration/test?staged=1"
says '"promoted":true'

echo '11. Another method takes the place of the sandbox. In dev no method verifies people.'
call GET "publishers/$publisher/overview"
says '"name":"key","done":true'
says '"name":"method","done":false'
call PATCH "integrations/$integration" "{\"methods\":[\"${METHOD:-bank}\"]}"
call GET "publishers/$publisher/overview"
says '"name":"method","done":false'

echo '12. A viewer looks, and changes nothing.'
call POST operators '{"name":"Walk by curl","role":"viewer"}'
viewer=$(member token)
operator=$(sed -n 's/.*"id":"\(op_[^"]*\)".*/\1/p' "$here/answer")
(
	VERGE_OPERATOR_TOKEN=$viewer
	call GET "integrations/$integration"
	want=403
	call POST keys "{\"publisher_id\":\"$publisher\"}"
)
call POST "operators/$operator/revoke" '{}'

echo '13. Who did what is in the audit, and no secret is.'
call GET "audit?publisher_id=$publisher"
says '"operation":"integration.create"'
for secret in "$made" "$WEBHOOK_SECRET" "$key"; do
	if grep -qF "$secret" "$here/answer"; then
		echo 'the audit holds a secret' >&2
		exit 1
	fi
done

echo '14. The publisher leaves.'
call POST "publishers/$publisher/archive" '{}'
want=400 call POST keys "{\"publisher_id\":\"$publisher\"}"
echo 'Done.'
