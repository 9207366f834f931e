// Node.js 18 or later. SECRET_KEY is in the server's environment.
async function call(path, body) {
  const response = await fetch('BASE_URL' + path, {
    method: 'POST',
    headers: { Authorization: `Bearer ${process.env.SECRET_KEY}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(`${answer.code}: ${answer.error}`);
  return answer;
}

// Store state and session_id with the user's session, then redirect the browser to redirect_url.
export const start = (state) => call('/api/v1/verify/start', {
  integration_id: 'INTEGRATION_ID',
  callback_url: 'CALLBACK_URL',
  state,
});

// In the callback: compare state with the stored one, then exchange result_token.
// sessionId is the session_id that you stored.
export async function isVerified(resultToken, sessionId) {
  const answer = await call('/api/v1/verify/validate', { result_token: resultToken });
  return answer.verified && answer.session_id === sessionId;
}
