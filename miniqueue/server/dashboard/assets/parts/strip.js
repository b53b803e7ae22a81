// The strip: large numbers with one more fact; each tile is a link to what it counts.

import * as format from "../lib/format.js";
import { html } from "../lib/ui.js";
import { Spark } from "./marks.js";

/** Tiles of {label, value or count, unit, fact, factHref, href, values, color, isBad}. */
export const Strip = ({ tiles, label }) =>
  html`<section class="card strip" aria-label=${label}>
    ${tiles.map((tile) => html`<${Tile} key=${tile.label} ...${tile} />`)}</section>`;

function Tile({ fact, factHref, href, ...tile }) {
  const shown = html`<${Figure} ...${tile} />`;
  const more = html`<span class="c">${fact}</span>`;
  if (factHref) return html`<div class="linked"><a href=${href}>${shown}</a><a href=${factHref}>${more}</a></div>`;
  return href ? html`<a href=${href}>${shown}${more}</a>` : html`<div>${shown}${more}</div>`;
}

function Figure({ label, count, value = format.count(count), unit, values, points, color, isBad }) {
  return html`<span class="l">${label}</span><span class=${isBad ? "v up" : "v"}>${value}
    ${unit && html`<small>${unit}</small>`}</span>
    ${count >= format.FIRST_ROUNDED && html`<span class="c">${format.exact(count)}</span>`}
    ${values && html`<${Spark} values=${values} color=${color} length=${points} />`}`;
}
