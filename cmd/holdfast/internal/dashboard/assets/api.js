// Talking to the server. Each call has an end. Paths are relative to this script, so they work below any path.

const patience = 20000;

// Refused is what the server says in place of an answer; status is 0 if it was not reached.
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function call(path, options, signal) {
  const limits = [AbortSignal.timeout(patience)];
  if (signal) limits.push(signal);
  let response;
  let body;
  try {
    response = await fetch(new URL(path, import.meta.url), { ...options, signal: AbortSignal.any(limits), credentials: "same-origin", cache: "no-store" });
    body = await response.json();
  } catch (error) {
    if (signal && signal.aborted) throw error;
    if (error instanceof SyntaxError) throw new Refused(0, `Something else answers in place of the dashboard, such as a proxy: HTTP status ${response.status}.`);
    throw new Refused(0, "The dashboard does not answer. It may have been stopped.");
  }
  if (!response.ok) throw new Refused(response.status, body.error || "The dashboard refuses.");
  return body;
}

export const get = (path, query, signal) => call(`${path}?${new URLSearchParams(query)}`, {}, signal);

export const post = (path, value) =>
  call(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(value) });
