// The list from which a message was reached: its parameters are in the URL of the message, so that the message has
// neighbors, and the way up leads to the same page of the list.
//
//   /ui/topics/orders.dlq/messages/0-7?state=dead&from=orders&after=0-4
//   ──▶  the list of the dead letters of orders, after 0-4; the messages before and after 0-7 in it
//
// Pages that were shown are kept for a while: a queue goes on, but whoever reads through a page reads the same page.

import { queryString, topicUrl } from "./routes.js";

const PARAMETERS = ["state", "group", "key", "contains", "reason"];
/** How many pages are kept. */
const KEPT = 20;
const pages = new Map();

const chosen = (query) =>
  Object.fromEntries(PARAMETERS.filter((name) => query[name]).map((name) => [name, query[name]]));

/** Return the read model of a page of messages. */
export const listView = (topic, query, count) =>
  `messages${queryString({ topic, ...chosen(query), after: query.after, count })}`;

/** Return the URL of a message in a list of a topic; dead letters are in another topic. */
export function messageUrl(topic, query, id, place = topic) {
  const from = place === topic ? null : topic;
  return topicUrl(place, "messages", { ...chosen(query), from, after: query.after }, id);
}

/** Return {topic, query} of the list that the URL of a message names; null if it names none. */
export function listOf(topic, query) {
  if (!query.state) return null;
  return { topic: query.from || topic, query: { ...chosen(query), after: query.after } };
}

/** Return the URL of a page of a list. */
export function listUrl(topic, query) {
  const state = query.state === "ready" ? null : query.state;
  return topicUrl(topic, "messages", { ...chosen(query), state, after: query.after });
}

/** Keep a page that was shown: where it begins, and what the broker answered. */
export function keepPage(view, after, answer) {
  pages.delete(view);
  pages.set(view, { after: after || undefined, answer });
  if (pages.size > KEPT) pages.delete(pages.keys().next().value);
}

/** Return a page that was shown; null if it is not kept any more. */
export const pageOf = (view) => pages.get(view)?.answer ?? null;

/** Return {after, id} of the last message of the page before one that begins after `query.after`; null if unknown. */
export function pageBefore(topic, query, count) {
  for (const [view, { after, answer }] of pages) {
    const last = answer.messages.at(-1);
    const isBefore = answer.next === query.after && view === listView(topic, { ...query, after }, count);
    if (isBefore && last) return { after, id: last.id };
  }
  return null;
}

/**
 * Return {previous, next, isLast} of a message in a page: the ids beside it, null where there is none; whether it is
 * the last one. Without a page, and if it is not there, both ids are null.
 */
export function neighborsOf(page, id) {
  const ids = (page?.messages ?? []).map((message) => message.id);
  const at = ids.indexOf(id);
  if (at < 0) return { previous: null, next: null, isLast: false };
  return { previous: ids[at - 1] ?? null, next: ids[at + 1] ?? null, isLast: at === ids.length - 1 };
}
