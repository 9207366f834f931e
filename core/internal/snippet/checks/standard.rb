require 'openssl'

# check_standard returns the reason to reject a request, or nil. id, timestamp and signatures are its headers
# webhook-id, webhook-timestamp and webhook-signature, body is its raw bytes, and now is in Unix seconds.
def check_standard(secret, id, timestamp, signatures, body, now)
  unless secret.match?(%r{\Awhsec_[A-Za-z0-9+/]{43}=\z})
    return 'the secret is not whsec_ and the base64 of 32 bytes'
  end
  return 'webhook-id is missing or too long' if id.to_s.empty? || id.bytesize > 256
  return 'webhook-timestamp is not a time' unless timestamp.to_s.b.match?(/\A[0-9]{1,12}\z/)
  return 'webhook-signature is missing or too long' if signatures.to_s.empty? || signatures.bytesize > 1024

  key = secret.delete_prefix('whsec_').unpack1('m')
  mac = OpenSSL::HMAC.digest('SHA256', key, "#{id}.#{timestamp}.".b + body.b)
  expected = "v1,#{[mac].pack('m0')}"
  # There are two signatures while a change of the secret is staged.
  found = signatures.b.split(' ', -1).any? do |given|
    given.bytesize == expected.bytesize && OpenSSL.fixed_length_secure_compare(given, expected)
  end
  return 'no signature matches' unless found

  'the signature is too old' if (now.to_i - timestamp.to_i).abs > 300
end
