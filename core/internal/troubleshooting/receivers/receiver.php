<?php
// A webhook receiver for PHP 8, without a framework. To try it: php -S 127.0.0.1:8000 receiver.php
// WEBHOOK_SECRET is the secret of the integration.
$secret = getenv('WEBHOOK_SECRET');

// [check]
// check returns the reason to reject a request, or null. $signature and $timestamp are its headers
// X-Service-Signature and X-Service-Timestamp, $body is its raw bytes, and $now is in Unix seconds.
function check(string $secret, ?string $signature, ?string $timestamp, string $body, int $now): ?string
{
    if ($secret === '') {
        return 'the secret is missing';
    }
    if ($signature === null || strlen($signature) > 1024) {
        return 'the signature header is missing or too long';
    }
    $fields = [];
    foreach (explode(',', $signature) as $element) {
        $pair = explode('=', trim($element, " \t"), 2);
        if (count($pair) < 2 || isset($fields[$pair[0]])) {
            return 'the signature header is malformed';
        }
        $fields[$pair[0]] = $pair[1];
    }
    $t = $fields['t'] ?? '';
    $v1 = $fields['v1'] ?? '';
    if (!preg_match('/^(0|[1-9][0-9]{0,11})$/D', $t) || !preg_match('/^[0-9a-f]{64}$/Di', $v1)) {
        return 'the signature header is malformed';
    }

    // [differing_timestamp]
    if ($timestamp !== null && $timestamp !== $t) {
        return 'X-Service-Timestamp differs from t';
    }
    // [end]

    // [good]
    // $secret is the secret of this integration; $body contains the raw bytes.
    $expected = hash_hmac('sha256', $t . '.' . $body, $secret);
    // [end]

    // [bad_signature]
    if (!hash_equals($expected, strtolower($v1))) {
        return 'the signature does not match';
    }
    // [end]

    // [stale_timestamp]
    // $now is in Unix seconds, time(). $t is from X-Service-Signature.
    if (abs($now - (int) $t) > 300) {
        return 'the signature is too old';
    }
    // [end]
    return null;
}
// [/check]

// [altered_body]
// Use the raw bytes, before anything parses them.
// Laravel and Symfony: $request->getContent(), not $request->json() or $request->all().
$body = file_get_contents('php://input');
// [end]

$signature = $_SERVER['HTTP_X_SERVICE_SIGNATURE'] ?? null;
$timestamp = $_SERVER['HTTP_X_SERVICE_TIMESTAMP'] ?? null;
$wrong = check($secret, $signature, $timestamp, $body, time());
if ($wrong !== null) {
    http_response_code(401);
    exit($wrong);
}
$event = json_decode($body, true);
// Add the event to a queue, once for each idempotency_key.
error_log($event['type'] . ' ' . $event['idempotency_key']);
http_response_code(204);
