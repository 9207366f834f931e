foreach (json_decode(file_get_contents('php://stdin'), true)['vectors'] as $v) {
    $body = base64_decode($v['body']);
    $wrong = check_standard($v['secret'], $v['id'], $v['timestamp'], $v['signature'], $body, $v['now']);
    echo $wrong === null ? 'accepted' : 'refused', "\n";
}
