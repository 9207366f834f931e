// Issues a status list with each library, and reads our list with each.
import { createPrivateKey, sign } from 'node:crypto'
import * as owf from '@owf/token-status-list'
import { CoseKey } from '@owf/cose'
import * as sd from '@sd-jwt/jwt-status-list'

let text = ''
for await (const part of process.stdin) text += part
const q = JSON.parse(text)

const key = createPrivateKey({ key: q.key, format: 'jwk' })
const signed = (message) => sign('sha256', message, { key, dsaEncoding: 'ieee-p1363' })
const b64 = (v) => Buffer.from(JSON.stringify(v)).toString('base64url')

function jwt({ header, payload }) {
  const message = `${b64(header)}.${b64(payload)}`
  return `${message}.${signed(Buffer.from(message)).toString('base64url')}`
}

const claims = { sub: q.uri, iat: q.issued, exp: q.expires, ttl: q.ttl }
const header = { alg: 'ES256', typ: 'statuslist+jwt', x5c: q.chain }
const byOWF = new owf.StatusList(q.statuses, q.bits)
const bySD = new sd.StatusList(q.statuses, q.bits)

const X5CHAIN = 33
const cwt = new owf.StatusListCwt({
  payload: {
    subject: q.uri, statusList: byOWF, issuedAt: new Date(q.issued * 1000),
    expirationTime: new Date(q.expires * 1000), timeToLive: q.ttl,
  },
  protectedHeaders: new Map([[1, -7], [16, 'application/statuslist+cwt']]),
  unprotectedHeaders: new Map([[X5CHAIN, Buffer.from(q.chain[0], 'base64')]]),
})
const token = await cwt.signAndEncode({ signingKey: CoseKey.fromJwk(q.key), algorithm: -7 },
  { sign: async ({ toBeSigned }) => new Uint8Array(signed(toBeSigned)) })

const all = (list) => q.statuses.map((_, i) => list.getStatus(i))
process.stdout.write(JSON.stringify({
  OWFJWT: jwt(owf.createHeaderAndPayload(byOWF, { ...claims }, { ...header })),
  SDJWT: jwt(sd.createHeaderAndPayload(bySD, { ...claims }, { ...header })),
  OWFCWT: Buffer.from(token).toString('hex'),
  Read: [
    all(owf.getListFromStatusListJWT(q.jwt)),
    all(sd.getListFromStatusListJWT(q.jwt)),
    all(owf.StatusListCwt.fromToken(Buffer.from(q.cwt, 'hex')).payload.statusList),
  ],
}))
