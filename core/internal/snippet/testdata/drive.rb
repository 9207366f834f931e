require 'base64'
require 'json'

JSON.parse($stdin.read)['vectors'].each do |v|
  wrong = check(v['secret'], v['signature'], v['timestamp'], Base64.decode64(v['body']), v['now'])
  puts wrong ? 'refused' : 'accepted'
end
