// Tables: buttons in the heads, numbers on the right, zeros gray, one link a row.
//
//   columns   [{key, label, cell(row), isNumber, sort, hide}]; `hide` is "medium" or "phone": from this width down

import { count, exact, UNKNOWN } from "../lib/format.js";
import { html } from "../lib/ui.js";
import { nextSort } from "../lib/sorting.js";

/** A table; `sort` is {key, isDescending}, and `onSort` gets the next sort as it is in the URL. */
export function Table({ columns, rows, keyOf, sort, onSort, caption, rowClass }) {
  return html`<div class="scroll" role="group" aria-label=${caption} tabindex="0"><table>
    <caption class="vh">${caption}</caption>
    <thead><tr>${columns.map((column) => html`<${Head} column=${column} sort=${sort} onSort=${onSort} />`)}</tr></thead>
    <tbody>${rows.map(
      (row) =>
        html`<tr key=${keyOf(row)} class=${rowClass?.(row)}>${columns.map((column, at) => cellOf(column, row, at))}
        </tr>`,
    )}</tbody>
  </table></div>`;
}

const classOf = (column, more = "") =>
  [column.isNumber && "num", column.hide && `hide-${column.hide}`, column.className, more].filter(Boolean).join(" ");

function Head({ column, sort, onSort }) {
  const isSorted = Boolean(sort) && sort.key === column.sort;
  const direction = isSorted ? (sort.isDescending ? "descending" : "ascending") : undefined;
  const click = () => onSort(nextSort(sort, column.sort, column.isNumber));
  const arrow = isSorted && html`<span aria-hidden="true"> ${sort.isDescending ? "↓" : "↑"}</span>`;
  const label = column.isLabelHidden ? html`<span class="vh">${column.label}</span>` : column.label;
  return html`<th scope="col" class=${classOf(column)} aria-sort=${direction} title=${column.title}>
    ${column.sort && onSort ? html`<button onClick=${click}>${label}${arrow}</button>` : label}</th>`;
}

function cellOf(column, row, at) {
  const shown = column.cell(row);
  const isZero = shown === UNKNOWN || (column.isNumber && shown === "0");
  if (at === 0 && !column.isPlain) return html`<th scope="row" class=${classOf(column)}>${shown}</th>`;
  return html`<td class=${classOf(column, [isZero && "z", column.mark?.(row)].filter(Boolean).join(" "))}>${shown}
    </td>`;
}

/** Which rows of how many are shown: 1–50 of 10,482. */
export const pageText = (first, last, total) => `${exact(first)}–${exact(last)} of ${count(total)}`;

/** Where a page of a long list is, and the buttons to the others. */
export function Pager({ text, onPrevious, onNext, children }) {
  return html`<div class="pager"><span class="n">${text}</span>${children}
    <div class="right">
      <button class="btn" data-key="previous" disabled=${!onPrevious} onClick=${onPrevious}><svg aria-hidden="true">
        <use href="#i-left" /></svg>Previous</button>
      <button class="btn" data-key="next" disabled=${!onNext} onClick=${onNext}>Next<svg aria-hidden="true">
        <use href="#i-right" /></svg></button>
    </div></div>`;
}

/** Links or buttons of which one is current: the state of topics, of messages. */
export function Choice({ label, items }) {
  return html`<div class="seg" role="group" aria-label=${label}>${items.map(
    ({ text, number, href, isCurrent }) =>
      html`<a href=${href} aria-current=${isCurrent ? "true" : undefined}>${text}
        ${number !== undefined && html` <span class="n">${number}</span>`}</a>`,
  )}</div>`;
}
