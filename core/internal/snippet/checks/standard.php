// check_standard returns the reason to reject a request, or null. $id, $timestamp and $signatures are its headers
// webhook-id, webhook-timestamp and webhook-signature, $body is its raw bytes, and $now is in Unix seconds.
function check_standard(
    string $secret, ?string $id, ?string $timestamp, ?string $signatures, string $body, int $now
): ?string {
    if (!preg_match('#^whsec_[A-Za-z0-9+/]{43}=$#D', $secret)) {
        return 'the secret is not whsec_ and the base64 of 32 bytes';
    }
    if ($id === null || $id === '' || strlen($id) > 256) {
        return 'webhook-id is missing or too long';
    }
    if (!preg_match('/^[0-9]{1,12}$/D', $timestamp ?? '')) {
        return 'webhook-timestamp is not a time';
    }
    if ($signatures === null || strlen($signatures) > 1024) {
        return 'webhook-signature is missing or too long';
    }

    $key = base64_decode(substr($secret, strlen('whsec_')));
    $expected = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$timestamp.$body", $key, true));
    // There are two signatures while a change of the secret is staged.
    $found = false;
    foreach (explode(' ', $signatures) as $given) {
        $found = hash_equals($expected, $given) || $found;
    }
    if (!$found) {
        return 'no signature matches';
    }

    return abs($now - (int) $timestamp) > 300 ? 'the signature is too old' : null;
}
