// Hooks that give a view its data: live read models, and answers that are fetched once.

import { get, read } from "./api.js";
import { watch } from "./live.js";
import { keepPage, pageOf } from "./message_list.js";
import { acted, brokerNow, connection, isLive, session } from "./store.js";
import { useEffect, useRef, useSeconds, useState, useStore } from "./ui.js";

const EMPTY = { model: null, error: null };

/** Return {model, error} of a read model that stays live. */
export function useLive(view) {
  const [state, setState] = useState({ view, ...EMPTY });
  const isSignedIn = Boolean(useStore(session)?.signedIn);
  useEffect(() => {
    if (!isSignedIn) return undefined;
    setState({ view, ...EMPTY });
    return watch(
      view,
      (model) => setState({ view, model, error: null }),
      (error) => setState((before) => ({ view, model: before.view === view ? before.model : null, error })),
    );
  }, [view, isSignedIn]);
  return state.view === view ? state : EMPTY;
}

/** Return {answer, error, isLoading, reload} of a request that is repeated when `key` changes; null asks nothing. */
function useAnswer(key, ask, everyMs = null) {
  const [state, setState] = useState({ key: null, answer: null, error: null, isLoading: true });
  const [number, setNumber] = useState(0);
  const latest = useRef(ask);
  latest.current = ask;
  useEffect(() => {
    if (key === null) return undefined;
    const aborter = new AbortController();
    setState((before) => ({ ...(before.key === key ? before : { answer: null, error: null }), key,
      isLoading: true }));
    latest.current(aborter.signal).then(
      (answer) => !aborter.signal.aborted &&
        setState({ key, answer, error: null, isLoading: false, atMs: Date.now() }),
      (error) => {
        if (aborter.signal.aborted) return;
        setState((before) => ({ ...before, key, error, isLoading: false }));
      },
    );
    return () => aborter.abort();
  }, [key, number]);
  useEffect(() => {
    if (key === null || everyMs === null) return undefined;
    const timer = setInterval(() => !document.hidden && setNumber((before) => before + 1), everyMs);
    return () => clearInterval(timer);
  }, [key, everyMs]);
  useEffect(() => acted.subscribe(() => setNumber((before) => before + 1)), []);
  const reload = () => setNumber((before) => before + 1);
  return state.key === key ? { ...state, reload } : { answer: null, error: null, isLoading: key !== null, reload };
}

/** Return a read model that is asked for once, and again by `reload` or every so many ms. */
export const useRead = (model, everyMs = null) => useAnswer(model, (signal) => read(model, signal), everyMs);

/** Return a page of messages as it was shown, or as it is now; null until it is known, or if there is no view. */
export function usePage(view, after) {
  const kept = view === null ? null : pageOf(view);
  const { answer } = useRead(kept ? null : view);
  useEffect(() => {
    if (answer) keepPage(view, after, answer);
  }, [answer]);
  return kept ?? answer;
}

/** Return an answer of the API. */
export const useGet = (segments, query = {}, isAsked = true) =>
  useAnswer(isAsked ? JSON.stringify([segments, query]) : null, (signal) => get(segments, query, signal));

/** Return the time of the broker, updated once a second; it stops while the figures are frozen or old. */
export function useNow() {
  const isOn = useStore(isLive);
  const { isLost } = useStore(connection);
  const shown = useRef(null);
  const isRunning = isOn && !isLost;
  useSeconds(isRunning);
  if (isRunning || shown.current === null) shown.current = brokerNow();
  return shown.current;
}
