// All topics: the broker filters, sorts, and pages; rows keep their order until they are sorted again.

import * as format from "../lib/format.js";
import { useLive, useNow } from "../lib/models.js";
import { setQuery } from "../lib/navigation.js";
import { queryString, viewUrl } from "../lib/routes.js";
import { rightsOn } from "../lib/rights.js";
import { inOrderOf, parseSort } from "../lib/sorting.js";
import { preferences, route, session } from "../lib/store.js";
import { html, useRef, useState, useStore } from "../lib/ui.js";
import { openDialog } from "../parts/dialog.js";
import { Filter } from "../parts/filter.js";
import { TitleBar } from "../parts/shell.js";
import { Empty, Failure, Loading, NoTopics } from "../parts/states.js";
import { Choice, pageText, Pager, Table } from "../parts/table.js";
import { CreateTopic } from "../acts/create_topic.js";
import { topicColumns } from "./topic_columns.js";

const STATES = [
  ["", "All", (model) => model.total],
  ["behind", "Falling behind"],
  ["damaged", "Damaged"],
  ["no-consumers", "No consumer"],
  ["dead", "Dead letters"],
  ["paused", "Paused"],
  ["idle", "Idle"],
];

export function Topics() {
  const { query } = useStore(route);
  const { rows: count } = useStore(preferences);
  const [sortedAgain, setSortedAgain] = useState(0);
  const { q = "", state = "", sort = "-ready" } = query;
  const page = Math.max(1, Number(query.page) || 1);
  const view = `topics${queryString({ q, state, sort, page, count, sorted: sortedAgain || null })}`;
  const { model, error } = useLive(view);
  const known = useStore(session);
  const latest = useRef(null);
  if (model) latest.current = model;
  const shown = model ?? latest.current;
  const mayCreate = rightsOn(known, null).has("admin") || known.roles?.some(({ role }) => role === "admin");
  const create = () => openDialog(() => html`<${CreateTopic} />`);
  return html`<${TitleBar} title="Topics"
    actions=${mayCreate && html`<button class="btn" onClick=${create}>Create a topic…</button>`} />
    <div class="bar"><${Filter} label="Filter by name" placeholder="Filter: a part of a name, or orders.*" value=${q} />
      <${Choice} label="State" items=${statesOf(shown, { q, state, sort })} /></div>
    <div class="card">${
      error && !shown
        ? html`<${Failure} error=${error} />`
        : !shown
          ? html`<${Loading} rows=${10} />`
          : html`<${Rows} model=${shown} view=${view} isOld=${!model} sort=${sort} page=${page} count=${count} q=${q}
              state=${state} sortAgain=${() => setSortedAgain(Date.now())} />`
    }</div>`;
}

function statesOf(model, { q, state, sort }) {
  return STATES.filter(
    ([name]) =>
      name === "" ||
      name === state ||
      !model ||
      model.states[name] ||
      ["behind", "no-consumers", "dead", "paused"].includes(name),
  ).map(([name, text, number]) => ({
    text,
    number: model ? format.count(number ? number(model) : (model.states[name] ?? 0)) : undefined,
    href: viewUrl("topics", { q, state: name, sort: sort === "-ready" ? null : sort }),
    isCurrent: name === state,
  }));
}

function Rows({ model, view, isOld, sort, page, count, q, state, sortAgain }) {
  const { zone } = useStore(preferences);
  const nowMs = useNow();
  const order = useRef({ view: null, names: [], atMs: null });
  if (order.current.view !== view && !isOld) {
    order.current = { view, names: model.topics.map(({ topic }) => topic), atMs: model.sortedAtMs ?? model.nowMs };
  }
  const rows = inOrderOf(order.current.names, model.topics, ({ topic }) => topic);
  const first = (page - 1) * count + 1;
  const last = first + rows.length - 1;
  const go = (to) => () => setQuery({ page: to === 1 ? null : to });
  if (!rows.length) return html`<${Nothing} model=${model} q=${q} state=${state} page=${page} />`;
  return html`<${Table} caption="Topics" columns=${topicColumns(nowMs)} rows=${rows} keyOf=${({ topic }) => topic}
      sort=${parseSort(sort, "-ready")}
      onSort=${(next) => setQuery({ sort: next === "-ready" ? null : next, page: null })} />
    <${Pager} text=${`${pageText(first, last, model.matching)}, sorted ${format.clock(order.current.atMs, zone)}`}
      onPrevious=${page > 1 && go(page - 1)} onNext=${last < model.matching && go(page + 1)}>
      <button class="btn bare" onClick=${sortAgain}>Sort again</button>
      <select aria-label="Rows on a page"
        onChange=${(event) => preferences.set({ rows: Number(event.target.value) })}>
          ${[50, 100].map(
            (number) => html`<option value=${number} selected=${number === count}>${number} rows</option>`,
          )}</select>
    <//>`;
}

function Nothing({ model, q, state, page }) {
  if (model.total === 0) return html`<${NoTopics} />`;
  if (page > 1)
    return html`<${Empty} title="This page is past the end">
      <a href=${viewUrl("topics", { q, state })}>First page</a><//>`;
  return html`<${Empty} title="No topic matches">
    ${
      q ? html`No topic${state && " in this state"} has a name that matches <b>${q}</b>.`
        : "No topic is in this state."
    } <a href=${viewUrl("topics")}>All topics</a><//>`;
}
