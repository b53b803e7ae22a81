// What is seen is in the URL: paths of the page, from and to a view and its parameters.
//
//   /ui/topics/orders/messages/3-48213?as=hex
//   ◀─▶  {view: "message", topic: "orders", id: "3-48213", query: {as: "hex"}}
//
// Browsers remove the segments "." and "..", even as %2e; topics with these names are in the query: /ui/topic?name=..

import { isKnown } from "./format.js";

export const BASE = "/ui";
export const TABS = ["summary", "messages", "groups", "partitions", "consumers", "settings", "log"];
const PLAIN_VIEWS = ["topics", "dead", "schedules", "consumers", "broker", "sign-in"];

const isSwallowed = (name) => name === "." || name === "..";

/** Return the view of a path and a query string, without the leading "?". */
export function parseRoute(path, search) {
  const query = Object.fromEntries(new URLSearchParams(search));
  const [first = "", ...rest] = path.slice(BASE.length).split("/").slice(1);
  if (first === "" && rest.length === 0) return { view: "overview", query };
  if (rest.length === 0 && PLAIN_VIEWS.includes(first)) return { view: first, query };
  if (first === "topics" && rest[0]) {
    const segments = rest.map(decoded);
    if (segments.includes(null)) return { view: "unknown", query };
    return topicRoute(segments, query);
  }
  if (first === "topic" && rest.length === 0 && query.name) {
    const { name, tab, id, ...others } = query;
    return topicRoute([name, ...(tab ? [tab] : []), ...(id ? [id] : [])], others);
  }
  return { view: "unknown", query };
}

function topicRoute([topic, tab = "summary", id, ...more], query) {
  if (more.length || !TABS.includes(tab) || (id && tab !== "messages")) return { view: "unknown", query };
  return id ? { view: "message", topic, tab, id, query } : { view: "topic", topic, tab, query };
}

function decoded(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return null;
  }
}

/** Return a query string with its "?" from parameters; those that are null, "" or false are left out. */
export function queryString(parameters) {
  const kept = Object.entries(parameters).filter(([, value]) => isKnown(value) && value !== "" && value !== false);
  const text = new URLSearchParams(kept).toString();
  return text && `?${text}`;
}

/** Return the URL of a view that is not about one topic. */
export function viewUrl(view, query = {}) {
  return `${BASE}/${view === "overview" ? "" : view}${queryString(query)}`;
}

/** Return the URL of a topic, of one of its tabs, or of one of its messages. */
export function topicUrl(topic, tab = "summary", query = {}, id = null) {
  const shownTab = tab === "summary" ? null : tab;
  if (isSwallowed(topic)) return `${BASE}/topic${queryString({ name: topic, tab: shownTab, id, ...query })}`;
  const segments = [topic, ...(shownTab ? [shownTab] : []), ...(id ? [id] : [])].map(encodeURIComponent);
  return `${BASE}/topics/${segments.join("/")}${queryString(query)}`;
}

/** Return the URL of a request of the API, from its path segments, unencoded, and its query. */
export function apiUrl(segments, query = {}) {
  const path = `/${segments.map(encodeURIComponent).join("/")}${queryString(query)}`;
  return segments.some(isSwallowed) ? `${BASE}/api${queryString({ path })}` : `${BASE}/api${path}`;
}

/** Return the path of a sign-in's `next` if it is within the page, else the overview. */
export function safeNext(next) {
  return typeof next === "string" && /^\/ui(\/(?!\/)|\?|$)[^\\]*$/.test(next) ? next : viewUrl("overview");
}
