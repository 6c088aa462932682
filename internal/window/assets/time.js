// @ts-check
// Times and durations as people read them.
import {h} from "./dom.js";

/** Units of time with their milliseconds. @type {[string, number][]} */
const units = [["d", 86400e3], ["h", 3600e3], ["min", 60e3], ["s", 1e3]];

/** Prints a time as "12 s ago" or "in 5 min". @param {number} at @param {number} now */
export function relative(at, now) {
  const away = Math.abs(now - at);
  const [unit, size] = units.find(([, size]) => away >= 2 * size || (size === 1e3 && away >= size)) ?? ["", 0];
  if (!size) return "now";
  return at > now ? `in ${Math.floor(away / size)} ${unit}` : `${Math.floor(away / size)} ${unit} ago`;
}

/** Describes a time, of which the page keeps the text up to date. @param {string | number | null | undefined} time */
export function when(time) {
  const at = typeof time === "number" ? time : Date.parse(time ?? "");
  if (!(at > 0)) return "at an unknown time";
  return h("time", {datetime: new Date(at).toISOString(), title: new Date(at).toLocaleString()}, relative(at, Date.now()));
}

/** Prints milliseconds as "8.2 ms" or "1.5 s". @param {number} ms */
export function millis(ms) {
  if (ms >= 120e3) return `${Math.round(ms / 60e3)} min`;
  if (ms >= 1e3) return `${(ms / 1e3).toFixed(1)} s`;
  return `${ms < 10 ? Math.round(ms * 10) / 10 : Math.round(ms)} ms`;
}

/** Brings the texts of all times up to date. */
function tick() {
  const now = Date.now();
  for (const shown of document.querySelectorAll("time")) {
    const text = relative(Date.parse(shown.dateTime), now);
    if (shown.firstChild && shown.firstChild.nodeValue !== text) shown.firstChild.nodeValue = text;
  }
}

setInterval(tick, 1000);
