// What all parts of the page share: a value, and calls when it changes.
//
//   session       what GET /ui/session answers; null until it is known
//   totals        the counts of the sidebar
//   connection    whether the broker answers, since when not, and when the page tries again
//   preferences   time zone, theme, keys; kept by the browser, never a secret
//   toasts, route, isLive

/** Return a store: `value`, `set` (an object is merged), `subscribe`. */
export function storeOf(initial) {
  const listeners = new Set();
  const store = {
    value: initial,
    set(change) {
      const isPart = store.value !== null && typeof store.value === "object" && !Array.isArray(store.value);
      store.value = isPart && change !== null && !Array.isArray(change) ? { ...store.value, ...change } : change;
      for (const listener of [...listeners]) listener(store.value);
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
  return store;
}

export const session = storeOf(null);
export const totals = storeOf({});
export const connection = storeOf({ isLost: false, sinceMs: null, lastMs: null, nextTryMs: null });
export const isLive = storeOf(true);
export const route = storeOf({ view: "overview", query: {} });
export const preferences = storeOf({ zone: "local", theme: "auto", keys: true, rows: 50 });
export const announcement = storeOf("");
/** How many acts were done: what was read before one of them is read again. */
export const acted = storeOf(0);

/** The clock of the broker minus the clock of this browser, in ms. */
export const clockOffset = storeOf(0);

/** Now, by the clock of the broker, in ms since 1970. */
export const brokerNow = () => Date.now() + clockOffset.value;

/** The last offsets. Of answers that were long on their way, they are too small, so the largest one is used. */
const offsets = [];

/** Set the clock of the broker, from the time in one of its answers. */
export function setBrokerNow(nowMs) {
  if (typeof nowMs !== "number") return;
  offsets.push(nowMs - Date.now());
  offsets.splice(0, offsets.length - 5);
  clockOffset.set(Math.max(...offsets));
}

const STORED = "miniqueue-preferences";

/** Read the preferences that the browser keeps, and keep them from now on. */
export function loadPreferences() {
  try {
    preferences.set(JSON.parse(localStorage.getItem(STORED) ?? "{}"));
  } catch {
    // A browser that keeps nothing, or a text of another program: the defaults apply.
  }
  const apply = ({ theme }) => {
    document.documentElement.dataset.theme = theme;
  };
  apply(preferences.value);
  preferences.subscribe((value) => {
    apply(value);
    try {
      localStorage.setItem(STORED, JSON.stringify(value));
    } catch {
      // The preferences last as long as this page.
    }
  });
}
