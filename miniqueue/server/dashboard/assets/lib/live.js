// One stream of server-sent events for the whole tab: the counts of the sidebar, and what the view shows.
//
//   watch("overview?range=15m", show)     GET once, for errors with their reason ─▶ EventSource ─▶ show(model) …
//   hidden tab, or Live switched off      the stream is closed; the figures stay
//   stream lost                           tries again after 1, 2, 4, 8, 15 s …; a banner after 3 s

import { ApiError, read, request } from "./api.js";
import { BASE } from "./routes.js";
import { acted, brokerNow, connection, isLive, session, setBrokerNow, totals } from "./store.js";

const TRIES_SECONDS = [1, 2, 4, 8, 15];
/** The broker sends at least the counts in this time; a stream that is silent for longer is dead. */
const SILENCE_MS = 40_000;

const NOTHING = { view: "", show: null, fail: null };
let current = NOTHING;
let source = null;
let tries = 0;
let openTimer = null;
let retryTimer = null;
let silenceTimer = null;
let lostSinceMs = null;

/** Show a read model from now on, as it changes; returns a function that ends this. */
export function watch(view, show, fail) {
  const watched = { view, show, fail };
  const aborter = new AbortController();
  current = watched;
  refresh(aborter.signal);
  open();
  return () => {
    aborter.abort();
    if (current !== watched) return;
    current = NOTHING;
    open();
  };
}

/** Show what is watched once, by a request of its own: its errors have reasons, those of a stream do not. */
async function refresh(signal, onLost = lose) {
  const watched = current;
  if (!watched.view) return;
  try {
    const model = await read(watched.view, signal);
    if (current === watched) watched.show(model);
  } catch (error) {
    if (current === watched && error instanceof ApiError) watched.fail(error);
    else if (current === watched && error.name !== "AbortError") onLost();
  }
}

/** Try to connect now. */
export function tryNow() {
  clearTimeout(retryTimer);
  open();
}

/** Open the stream of what is watched, and close the previous one; once, however often this is called at a time. */
export function open() {
  close();
  openTimer = setTimeout(connect);
}

function connect() {
  if (!isLive.value || document.hidden || !session.value?.signedIn) return;
  const opened = new EventSource(`${BASE}/live?view=${encodeURIComponent(current.view)}`);
  const watched = current;
  source = opened;
  const onEvent = (name, use) =>
    opened.addEventListener(name, (event) => {
      if (source !== opened) return;
      hear();
      if (event.data) use(JSON.parse(event.data));
    });
  onEvent("view", (model) => {
    setBrokerNow(model.nowMs);
    if (current === watched) watched.show?.(model);
  });
  onEvent("totals", (counts) => {
    setBrokerNow(counts.nowMs);
    totals.set(counts);
  });
  opened.addEventListener("error", (event) => {
    if (source !== opened) return;
    if (event.data) refuse(watched, JSON.parse(event.data));
    else lose();
  });
  opened.addEventListener("open", () => source === opened && hear());
}

/** The broker says that the view cannot be shown, or that the session has ended. */
function refuse(watched, { code, error, status }) {
  if (code === "NOAUTH") session.set({ signedIn: false, needsSignIn: true, hasEnded: true });
  else if (current === watched) watched.fail?.(new ApiError(status ?? 403, code, error));
}

/** Close the stream. */
export function close() {
  source?.close();
  source = null;
  clearTimeout(openTimer);
  clearTimeout(silenceTimer);
}

function hear() {
  tries = 0;
  lostSinceMs = null;
  clearTimeout(silenceTimer);
  silenceTimer = setTimeout(lose, SILENCE_MS);
  if (connection.value.isLost) acted.set(acted.value + 1); // what was read before is read again
  connection.set({ isLost: false, sinceMs: null, lastMs: Date.now(), nextTryMs: null });
}

/** The stream has ended: find out whether the broker answers, and open it again later. */
async function lose() {
  close();
  clearTimeout(retryTimer);
  lostSinceMs ??= brokerNow();
  const waitMs = 1000 * TRIES_SECONDS[Math.min(tries, TRIES_SECONDS.length - 1)];
  tries += 1;
  retryTimer = setTimeout(open, waitMs);
  try {
    session.set(await request("GET", `${BASE}/session`));
    refresh(undefined, () => {}); // the broker has no room for another stream, perhaps, but answers
  } catch (error) {
    const hasEnded = error instanceof ApiError && error.status === 401;
    if (hasEnded) session.set({ signedIn: false, needsSignIn: true, hasEnded: true });
    else connection.set({ isLost: true, sinceMs: lostSinceMs, nextTryMs: Date.now() + waitMs });
  }
}

/** Follow what opens and closes the stream: the tab, the switch, the network, the session. */
export function followPage() {
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  window.addEventListener("online", tryNow);
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", (event) => event.persisted && open());
  isLive.subscribe(open);
  let wasSignedIn = false;
  session.subscribe((value) => {
    if (value?.signedIn && !wasSignedIn) open();
    if (!value?.signedIn) close();
    wasSignedIn = Boolean(value?.signedIn);
  });
}
