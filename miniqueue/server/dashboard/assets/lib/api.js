// Requests to the broker: the read models under /ui/data, and its public API under /ui/api.

import { connection, session, setBrokerNow } from "./store.js";
import { apiUrl, BASE } from "./routes.js";

/** An answer that is an error: `code` is stable, `message` is for people. */
export class ApiError extends Error {
  constructor(status, code, text, body = {}) {
    super(text);
    this.status = status;
    this.code = code;
    this.body = body;
  }
}

/** The broker did not answer. */
export class Unreachable extends Error {}

/** Return the JSON of a read model: `read("topics?q=a")`. */
export async function read(model, signal) {
  const answer = await request("GET", `${BASE}/data/${model}`, { signal });
  setBrokerNow(answer?.nowMs);
  return answer;
}

/** Return the answer of a GET of the API: `get(["topics", "orders"], {})`. */
export const get = (segments, query, signal) => request("GET", apiUrl(segments, query), { signal });

/** Do an act with the API, and return its answer. */
export const act = (method, segments, query = {}, body = undefined, options = {}) =>
  request(method, apiUrl(segments, query), { body, ...options });

/** Send one request; JSON in, JSON or text out. Throws ApiError, Unreachable, or what ends an aborted request. */
export async function request(method, url, { body, signal, headers = {}, isRaw = false } = {}) {
  const options = {
    method,
    signal,
    headers: { ...headers },
    cache: "no-store",
    credentials: "same-origin",
    redirect: "error",
  };
  if (body !== undefined) {
    options.body = isRaw ? body : JSON.stringify(body);
    if (!isRaw) options.headers["Content-Type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(url, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Unreachable("the broker does not answer");
  }
  const text = await response.text();
  const answer = parsed(text);
  if (response.ok) {
    connection.set({ lastMs: Date.now() });
    return answer;
  }
  const code = answer?.code ?? String(response.status);
  if (response.status === 401 && code === "NOAUTH" && session.value?.signedIn)
    session.set({ signedIn: false, needsSignIn: true, hasEnded: true });
  const reason = answer?.error ?? `the broker answered ${response.status} ${response.statusText}`.trim();
  throw new ApiError(response.status, code, reason, answer ?? {});
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
