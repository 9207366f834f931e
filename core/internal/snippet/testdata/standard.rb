require 'base64'
require 'json'

JSON.parse($stdin.read)['vectors'].each do |v|
  body = Base64.decode64(v['body'])
  wrong = check_standard(v['secret'], v['id'], v['timestamp'], v['signature'], body, v['now'])
  puts wrong ? 'refused' : 'accepted'
end
