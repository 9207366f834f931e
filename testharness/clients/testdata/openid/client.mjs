// A client by openid-client. Its argument is {issuer, client, secret, auth, redirect, ahead} in JSON. For each line
// "begin" it prints the URL of an authorization request. For each line with the URL of a return, it prints
// the claims of the ID token and of userinfo, or the error.
import { createInterface } from "node:readline";
import * as openid from "openid-client";

const { issuer, client, secret, auth, redirect, ahead } = JSON.parse(process.argv[2]);
const prove = auth === "basic" ? openid.ClientSecretBasic(secret) : openid.ClientSecretPost(secret);
const metadata = { client_secret: secret, [openid.clockSkew]: ahead };
const config = await openid.discovery(new URL(issuer), client, metadata, prove, { execute: [openid.allowInsecureRequests] });

let expects = {};
for await (const line of createInterface({ input: process.stdin })) {
  const answer = line === "begin" ? { url: await begin() } : await finish(line);
  console.log(JSON.stringify(answer));
}

async function begin() {
  const verifier = openid.randomPKCECodeVerifier();
  expects = { pkceCodeVerifier: verifier, expectedState: openid.randomState(), expectedNonce: openid.randomNonce(),
    idTokenExpected: true };
  return openid.buildAuthorizationUrl(config, {
    redirect_uri: redirect, scope: "openid", state: expects.expectedState, nonce: expects.expectedNonce,
    code_challenge: await openid.calculatePKCECodeChallenge(verifier), code_challenge_method: "S256",
  }).href;
}

async function finish(address) {
  try {
    const tokens = await openid.authorizationCodeGrant(config, new URL(address), expects);
    const claims = tokens.claims();
    return { claims, info: await openid.fetchUserInfo(config, tokens.access_token, claims.sub) };
  } catch (e) {
    return { error: e.error ?? e.code ?? e.message };
  }
}
