// A chart of the last minutes or hours: lines from 0, a shared cursor whose time and values are in the legend.

import * as format from "../lib/format.js";
import { RANGE_SECONDS, sentence, scaleTo, spanOf, timesOf } from "../lib/series.js";
import { setQuery } from "../lib/navigation.js";
import { preferences, route } from "../lib/store.js";
import { html, useEffect, useRef, useState, useStore } from "../lib/ui.js";
import { Loading } from "./states.js";

const HEIGHT = 168;
const DASHES = { k2: [6, 3], k4: [9, 3, 2, 3] };

/** The measures of charts: one color and one dash each, everywhere. */
const MEASURES = {
  published: ["Published", "k1"],
  acknowledged: ["Acknowledged", "k3"],
  returned: ["Returned", "k2"],
  ready: ["Ready", "k1"],
  delayed: ["Delayed", "k4"],
  leased: ["Leased", "k3"],
  dead: ["Dead letters", "k2"],
};

/** A chart of some measures of a history; `history` is null while it is loading. */
export function Chart({ title, history, measures, range = "15m", formatValue = format.count, current = {} }) {
  const { zone, theme } = useStore(preferences);
  const { query } = useStore(route);
  const [cursor, setCursor] = useState(null);
  const [isTable, setIsTable] = useState(false);
  const hidden = new Set((query.hide ?? "").split(",").filter(Boolean));
  const shown = measures.filter((measure) => history?.series[measure]);
  const toggle = (measure) => {
    const next = new Set(hidden);
    if (!next.delete(measure)) next.add(measure);
    setQuery({ hide: [...next].sort().join(",") }, { isTyping: true });
  };
  const atCursor = cursor !== null && history ? history.firstMs + cursor * history.stepSeconds * 1000 : null;
  const valueOf = (measure) => {
    const values = history.series[measure];
    if (atCursor !== null) return values[cursor];
    return current[measure] ?? values[values.length - 1];
  };
  return html`<section class="card figure" aria-label=${title}><header><h2>${title}</h2>
      <div class="right tools">
        ${atCursor !== null && html`<span class="s3 n">at ${format.clock(atCursor, zone)}</span>`}
        ${
          shown.length > 0 &&
          html`<button class="btn bare" aria-pressed=${String(isTable)}
            onClick=${() => setIsTable(!isTable)}>as a table</button>`
        }</div></header>
    <div class="chart">${
      history
        ? html`<div class="legend">${shown.map((measure) => {
            const [label, color] = MEASURES[measure];
            return html`<button aria-pressed=${String(!hidden.has(measure))} onClick=${() => toggle(measure)}>
              <i class=${color}></i>${label} <b>${formatValue(valueOf(measure))}</b></button>`;
          })}</div>
          ${
            isTable
              ? html`<${Numbers} history=${history} measures=${shown} formatValue=${formatValue} zone=${zone}
                  title=${title} />`
              : html`<${Plot} history=${history} measures=${shown.filter((measure) => !hidden.has(measure))}
                  formatValue=${formatValue} zone=${zone} theme=${theme} range=${range} onCursor=${setCursor}
                    title=${title} />`
          }`
        : html`<${Loading} rows=${4} />`
    }</div></section>`;
}

function Numbers({ history, measures, formatValue, zone, title }) {
  const times = timesOf(history);
  const rows = times
    .map((seconds, at) => [seconds, at])
    .filter(([, at]) => measures.some((measure) => history.series[measure][at] !== null))
    .reverse();
  return html`<div class="scroll numbers" tabindex="0" role="group" aria-label=${title}><table><thead><tr>
    <th scope="col">Time</th>
      ${measures.map((measure) => html`<th scope="col" class="num">${MEASURES[measure][0]}</th>`)}</tr></thead>
    <tbody>${rows.map(
      ([seconds, at]) =>
        html`<tr><th scope="row">${format.clock(seconds * 1000, zone)}</th>
        ${measures.map((measure) => html`<td class="num">${formatValue(history.series[measure][at])}</td>`)}</tr>`,
    )}
          </tbody></table></div>`;
}

function Plot({ history, measures, formatValue, zone, theme, range, onCursor, title }) {
  const box = useRef(null);
  const plot = useRef(null);
  const [isDark, setIsDark] = useState(matchMedia("(prefers-color-scheme: dark)").matches);
  useEffect(() => {
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const change = () => setIsDark(scheme.matches);
    scheme.addEventListener("change", change);
    return () => scheme.removeEventListener("change", change);
  }, []);
  const shape = JSON.stringify([measures, zone, theme, isDark, range]);
  useEffect(() => {
    plot.current = new window.uPlot(
      optionsOf(box.current, measures, formatValue, zone, RANGE_SECONDS[range] ?? 900, onCursor),
      dataOf(history, measures),
      box.current,
    );
    const observer = new ResizeObserver(() =>
      plot.current?.setSize({ width: box.current.clientWidth, height: HEIGHT }),
    );
    observer.observe(box.current);
    return () => {
      observer.disconnect();
      plot.current.destroy();
      plot.current = null;
    };
  }, [shape]);
  useEffect(() => plot.current?.setData(dataOf(history, measures)), [history]);
  const label = measures
    .map((measure) => sentence(MEASURES[measure][0], history.series[measure], formatValue))
    .join(" ");
  return html`<div class="plot" ref=${box} role="img" aria-label=${`${title}. ${label}`}></div>`;
}

const dataOf = (history, measures) => [timesOf(history), ...measures.map((measure) => history.series[measure])];

function optionsOf(box, measures, formatValue, zone, rangeSeconds, onCursor) {
  const axis = { stroke: colorOf(box, "axis"), font: "12px system-ui, sans-serif", ticks: { show: false } };
  const grid = { stroke: colorOf(box, "grid-line"), width: 1 };
  return {
    width: box.clientWidth,
    height: HEIGHT,
    padding: [8, 12, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: "time" }, y: false, points: { size: 7 }, drag: { setScale: false, x: false, y: false } },
    scales: {
      x: { time: true, range: (_, __, last) => spanOf(last, rangeSeconds, Date.now() / 1000) },
      y: { range: (_, __, high) => [0, scaleTo(high)] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 24,
        gap: 4,
        space: 56,
        values: (_, splits) => splits.map((seconds) => format.minuteOfDay(seconds * 1000, zone)),
      },
      {
        ...axis,
        grid,
        size: 46,
        gap: 8,
        splits: (self) => [0, 1, 2, 3, 4].map((part) => (self.scales.y.max * part) / 4),
        values: (_, splits) => splits.map(axisText),
      },
    ],
    series: [
      {},
      ...measures.map((measure) => {
        const [label, color] = MEASURES[measure];
        return {
          label,
          stroke: colorOf(box, color),
          width: 1.75,
          dash: DASHES[color],
          points: { show: false },
          value: (_, value) => formatValue(value),
        };
      }),
    ],
    hooks: { setCursor: [(self) => onCursor(self.cursor.idx ?? null)] },
  };
}

function axisText(value) {
  if (value >= 1e9) return `${Number((value / 1e9).toPrecision(3))} G`;
  if (value >= 1e6) return `${Number((value / 1e6).toPrecision(3))} M`;
  if (value >= 10_000) return `${Number((value / 1000).toPrecision(3))} k`;
  return value >= 1000 ? format.exact(value) : String(Number(value.toPrecision(3)));
}

/** The canvas needs colors, not variables: a hidden element resolves them. */
function colorOf(box, name) {
  const probe = document.createElement("i");
  probe.className = `probe ${name}`;
  box.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
