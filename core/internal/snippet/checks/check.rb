require 'openssl'

# check returns the reason to reject a request, or nil. signature and timestamp are its headers
# X-Service-Signature and X-Service-Timestamp, body is its raw bytes, and now is in Unix seconds.
# Rails: request.raw_post, not params. Rack: env['rack.input'].read.
def check(secret, signature, timestamp, body, now)
  return 'the secret is missing' if secret.nil? || secret.empty?
  return 'the signature header is missing or too long' if signature.nil? || signature.bytesize > 1024

  fields = {}
  signature.b.split(',', -1).each do |element|
    name, value = element.gsub(/\A[ \t]+|[ \t]+\z/, '').split('=', 2)
    return 'the signature header is malformed' if value.nil? || fields.key?(name)

    fields[name] = value
  end
  t = fields['t'].to_s
  v1 = fields['v1'].to_s
  return 't of the signature header is not a time' unless t.match?(/\A(0|[1-9][0-9]{0,11})\z/)
  return 'v1 of the signature header is not 64 hexadecimal digits' unless v1.match?(/\A[0-9a-fA-F]{64}\z/)
  return 'X-Service-Timestamp differs from t' unless timestamp.nil? || timestamp.b == t

  expected = OpenSSL::HMAC.hexdigest('SHA256', secret, "#{t}.".b + body.b)
  return 'the signature does not match' unless OpenSSL.fixed_length_secure_compare(v1.downcase, expected)

  'the signature is too old' if (now.to_i - t.to_i).abs > 300
end
