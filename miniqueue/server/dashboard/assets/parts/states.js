// What is shown instead of a view: empty, loading, an error, or a right that is missing.

import { ApiError } from "../lib/api.js";
import { rightsOn, rolesText, ROLE_OF } from "../lib/rights.js";
import { session } from "../lib/store.js";
import { html, useIsSlow, useStore } from "../lib/ui.js";
import { Icon, Name } from "./marks.js";

/** Why there is nothing, and what would fill it. */
export const Empty = ({ title, children, action }) =>
  html`<div class="empty"><b>${title}</b><p>${children}</p>${action}</div>`;

/** No topic, of those that the user may see: others may exist, unless the user sees all. */
export function NoTopics() {
  const current = useStore(session);
  if (rightsOn(current, null).has("monitor"))
    return html`<${Empty} title="No topics yet">The first publish to a topic creates it. Try: <code>miniqueue
      pub orders hello</code><//>`;
  return html`<${Empty} title="No topics that you may view">You are ${current?.user}: ${rolesText(current)}.
    Topics are listed for users with the role monitor for them.<//>`;
}

/** Gray bars, after 300 ms. */
export function Loading({ rows = 4, label = "Loading" }) {
  const isSlow = useIsSlow(true);
  const widths = ["a", "c", "b"];
  return html`<div class="load" aria-busy="true" aria-label=${label} role="group">
    ${isSlow && Array.from({ length: rows }, (_, at) => html`<div class=${`sk ${widths[at % 3]}`}></div>`)}
  </div>`;
}

/** What failed, why, and what to do; with the error code. */
export function Failure({ error, retry, right, topic }) {
  if (error instanceof ApiError && error.code === "NOPERM")
    return html`<${Denied} right=${right} topic=${topic} error=${error} />`;
  const isGone = error instanceof ApiError && error.code === "NOTOPIC";
  if (isGone) {
    return html`<div class="empty"><b>There is no topic <${Name}>${topic}<//></b>
      <p>It was deleted, or never existed. The first publish to it creates it.</p>
      <p><a href="/ui/topics">All topics</a></p><code class="s3">NOTOPIC 404</code></div>`;
  }
  return html`<div class="empty" role="alert"><b>This could not be loaded</b><p>${error.message}</p>
    ${retry && html`<button class="btn" onClick=${retry}>Try again</button>`}
    ${error instanceof ApiError && html`<code class="s3">${error.code} ${error.status}</code>`}</div>`;
}

/** A view that the user may not see: the user, the roles of the user, and the role that the view requires. */
export function Denied({ right = "monitor", topic, error }) {
  const current = useStore(session);
  const subject = topic === undefined ? "the whole broker" : html`<${Name}>${topic}<//>`;
  const roles = rolesText(current);
  return html`<div class="empty"><b>You may not view this</b>
    <p>You are ${current?.user ?? "not signed in"}
      ${roles ? html`: ${roles}` : ", without a role"}. This requires the role ${ROLE_OF[right]} for ${subject}.</p>
    ${error && html`<code class="s3">${error.code} ${error.status}</code>`}</div>`;
}

/** An error where it arose: beside a field, or in a dialog. */
export const ErrorLine = ({ error, id }) =>
  error
    ? html`<p class="err" id=${id} role="alert"><${Icon} name="crit" /><span>${error.message}
      ${error instanceof ApiError && html` <code>${error.code}</code>`}</span></p>`
    : null;

/** A card with a heading; its content may still be loading or have failed. */
export function Card({ title, note, actions, children, error, isLoading, retry, rows, id, right, topic, label }) {
  const heading =
    id ??
    `h-${String(title ?? label)
      .toLowerCase()
      .replace(/[^a-z]+/g, "-")}`;
  return html`<section class="card" aria-labelledby=${title ? heading : undefined}
      aria-label=${title ? undefined : label}>
    ${
      title &&
      html`<header><h2 id=${heading}>${title}</h2>${note && html`<span class="s3 n">${note}</span>`}
      ${actions && html`<div class="right tools">${actions}</div>`}</header>`
    }
    ${
      error && !children
        ? html`<${Failure} error=${error} retry=${retry} right=${right} topic=${topic} />`
        : isLoading
          ? html`<${Loading} rows=${rows} />`
          : children
    }
  </section>`;
}
