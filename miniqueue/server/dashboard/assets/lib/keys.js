// Keys: none acts on messages, none works in inputs, and all can be switched off.

import { go } from "./navigation.js";
import { TABS, topicUrl, viewUrl } from "./routes.js";
import { isLive, preferences, route, storeOf } from "./store.js";

/** What each key does, for the list behind "?". */
export const KEYS = [
  ["/", "Find a topic"],
  ["g o", "Overview"],
  ["g t", "Topics"],
  ["g d", "Dead letters"],
  ["g s", "Schedules"],
  ["g c", "Consumers"],
  ["g b", "Broker"],
  ["j k", "Next row, previous row; Enter opens it"],
  ["[ ]", "Previous, next: page of a list, or message of the list"],
  ["1–7", "Tab of a topic"],
  ["l", "Live on or off"],
  ["c", "Copy what the page names: a topic or an id"],
  ["u", "Up: to the topic, to the list"],
  ["?", "This list"],
  ["Esc", "Close"],
];

const VIEWS = { o: "overview", t: "topics", d: "dead", s: "schedules", c: "consumers", b: "broker" };
/** Whether the list of keys is shown. */
export const isListShown = storeOf(false);
let isAfterG = false;
let timer = null;

/** Listen to the keys of the page. */
export function followKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey || !preferences.value.keys) return;
    if (event.target.closest?.("input, select, textarea, [contenteditable]") ||
      document.querySelector("dialog[open]"))
      return;
    if (press(event.key)) event.preventDefault();
  });
}

function press(key) {
  if (isAfterG) {
    isAfterG = false;
    clearTimeout(timer);
    if (VIEWS[key]) go(viewUrl(VIEWS[key]));
    return Boolean(VIEWS[key]);
  }
  const { view, topic } = route.value;
  const tab = topic !== undefined && TABS[Number(key) - 1];
  if (tab) go(topicUrl(topic, tab));
  else if (key === "g") {
    isAfterG = true;
    timer = setTimeout(() => (isAfterG = false), 1500);
  } else if (key === "/") focusOn('[data-key="find"]');
  else if (key === "j" || key === "k") moveRow(key === "j" ? 1 : -1);
  else if (key === "[") clickOn('[data-key="previous"]');
  else if (key === "]") clickOn('[data-key="next"]');
  else if (key === "l") isLive.set(!isLive.value);
  else if (key === "c") clickOn('[data-key="copy"]');
  else if (key === "u") up(view);
  else if (key === "?") isListShown.set(true);
  else return false;
  return true;
}

function up(view) {
  if (view === "message") visible(".crumbs a").pop().click(); // the list that it is from
  else if (view === "topic") go(viewUrl("topics"));
  else go(viewUrl("overview"));
}

const visible = (selector) =>
  [...document.querySelectorAll(selector)].filter((element) => element.offsetParent !== null);

function focusOn(selector) {
  const [element] = visible(selector);
  if (element) element.focus();
  else clickOn('[data-key="find-tab"]');
}

function clickOn(selector) {
  visible(selector)[0]?.click();
}

function moveRow(by) {
  const links = visible("main tbody th a[href], main tbody [data-row]");
  if (!links.length) return;
  const at = links.indexOf(document.activeElement);
  links[Math.max(0, Math.min(links.length - 1, at < 0 ? (by > 0 ? 0 : links.length - 1) : at + by))].focus();
}
