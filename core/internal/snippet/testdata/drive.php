foreach (json_decode(file_get_contents('php://stdin'), true)['vectors'] as $v) {
    $wrong = check($v['secret'], $v['signature'], $v['timestamp'], base64_decode($v['body']), $v['now']);
    echo $wrong === null ? 'accepted' : 'refused', "\n";
}
