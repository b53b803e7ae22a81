// The strip: large numbers with one more fact; each tile is a link to what it counts.

import * as format from "../lib/format.js";
import { html } from "../lib/ui.js";
import { Spark } from "./marks.js";

/** Tiles of {label, value or count, unit, fact, href, values, color, isBad}. */
export const Strip = ({ tiles, label }) =>
  html`<section class="card strip" aria-label=${label}>
    ${tiles.map((tile) => html`<${Tile} key=${tile.label} ...${tile} />`)}</section>`;

function Tile({ label, count, value = format.count(count), unit, fact, href, values, points, color, isBad }) {
  const exact = count >= format.FIRST_ROUNDED ? format.exact(count) : undefined;
  const content = html`<span class="l">${label}</span><span class=${isBad ? "v up" : "v"}>${value}
    ${unit && html`<small>${unit}</small>`}</span>
    ${values && html`<${Spark} values=${values} color=${color} length=${points} />`}<span class="c">${fact}</span>`;
  return href ? html`<a href=${href} title=${exact}>${content}</a>` : html`<div>${content}</div>`;
}
