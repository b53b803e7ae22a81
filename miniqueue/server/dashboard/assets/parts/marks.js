// Small marks: icons, pills with a shape, a word and a color, meters, small lines, and numbers that can be zero.

import * as format from "../lib/format.js";
import { padded, sparkline } from "../lib/series.js";
import { preferences } from "../lib/store.js";
import { html, useStore } from "../lib/ui.js";

/** An icon of the sprite in index.html; decoration, so a word or a label is beside it. */
export const Icon = ({ name }) => html`<svg aria-hidden="true"><use href=${`#i-${name}`} /></svg>`;

const PILLS = {
  behind: ["crit", "crit", "Falling behind"],
  damaged: ["crit", "crit", "Damaged"],
  refused: ["crit", "crit", "Publishes rejected"],
  "no-consumers": ["warn", "warn", "No consumer"],
  dead: ["warn", "dead", "Dead letters"],
  disk: ["warn", "warn", "Disk nearly full"],
  limit: ["warn", "warn", "Limit nearly reached"],
  missed: ["warn", "warn", "Missed messages"],
  paused: ["paused", "pause", "Paused"],
  fine: ["fine", "check", "Fine"],
  idle: ["fine", "ring", "Idle"],
};

const PAUSED_SIDES = { in: "Paused in", out: "Paused out", both: "Paused" };
const LEVELS = { critical: "crit", warning: "warn", note: "paused" };

/** The state of a topic, or the kind of a line that needs attention. */
export function Pill({ kind, paused, level, word }) {
  const [color, icon, usual] = PILLS[kind] ?? [LEVELS[level] ?? "", "warn", kind];
  const shown = word ?? (kind === "paused" ? (PAUSED_SIDES[paused] ?? usual) : usual);
  return html`<span class=${`pill ${color}`}><${Icon} name=${icon} />${shown}</span>`;
}

/** A part of a whole, from 0 to 1. */
export function Meter({ part, label, level = "" }) {
  const width = Math.max(0, Math.min(100, 100 * (part || 0)));
  return html`<svg class=${`meter ${level}`}
      viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label=${label ?? `${Math.round(width)} %`}>
    <rect width=${width} height="6" />
  </svg>`;
}

/** Points of 15 minutes, 20 s apart. */
const POINTS = 46;

/** A line of the recent values of one measure, from 0. */
export function Spark({ values, color = "k1", length = POINTS }) {
  return html`<svg class=${`spark ${color}`} viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true">
    ${sparkline(padded(values ?? [], length)).map((points) => html`<polyline points=${points} />`)}
  </svg>`;
}

/** A time, with its full form as its title. */
export function Time({ ms, nowMs, precise = false }) {
  const { zone } = useStore(preferences);
  if (!format.isKnown(ms)) return format.UNKNOWN;
  const text = precise ? format.clockMs(ms, zone) : format.time(ms, nowMs, zone);
  return html`<time datetime=${new Date(ms).toISOString()} title=${format.iso(ms, zone)}>${text}</time>`;
}

/** A number with its unit in small print, as in 4 min 48 s. */
export const Parts = ({ seconds }) =>
  format.ageParts(seconds).map(([number, unit]) => html`${number}${unit && html`<small>${unit} </small>`}`);

/** A name that people gave: of any direction, and wrapped anywhere. */
export const Name = ({ children }) => html`<bdi class="name" dir="auto">${children}</bdi>`;
