// A site with @auth/core. Its argument is {origin, secret} in JSON. For each line "begin" it prints the URL of an
// authorization request. For each line with the URL of a return, it prints the claims of the ID token and the
// user of the session, or the error.
import { createInterface } from "node:readline";
import { Auth, skipCSRFCheck } from "@auth/core";

const { origin, secret } = JSON.parse(process.argv[2]);
process.env.VERGE_SECRET_KEY = secret;
const { handlers: configured } = await import("./auth.mjs");

let claims, user;
const config = {
  ...configured, trustHost: true, secret: "only-for-tests", basePath: "/api/auth", skipCSRFCheck,
  logger: { error() {}, warn() {}, debug() {} },
  events: { signIn(message) { claims = message.profile; } },
  callbacks: { jwt({ token, user: signedIn }) { user = signedIn ?? user; return token; } },
};
const cookies = new Map();

for await (const line of createInterface({ input: process.stdin })) {
  const answer = line === "begin" ? { url: await begin() } : await finish(line);
  console.log(JSON.stringify(answer));
}

async function ask(method, address) {
  const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
  const response = await Auth(new Request(address, { method, headers: { cookie } }), config);
  for (const line of response.headers.getSetCookie()) {
    const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
    if (value) cookies.set(name, value); else cookies.delete(name);
  }
  return response;
}

async function begin() {
  cookies.clear();
  claims = user = undefined;
  return (await ask("POST", origin + "/api/auth/signin/verge")).headers.get("location");
}

async function finish(address) {
  const back = await ask("GET", address);
  const error = new URL(back.headers.get("location"), origin).searchParams.get("error") ?? undefined;
  const session = await (await ask("GET", origin + "/api/auth/session")).json();
  return { error, claims, info: session === null ? null : user };
}
