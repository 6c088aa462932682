// @ts-check
// Small plots of the last minutes, and bars of the parts of a pass.
import {h} from "./dom.js";

/** One series of a plot: its values by step, a class for its colour, and what stands beside it. */
/** @typedef {{values: number[], class: string, label?: string}} Series */

const height = 32;

/**
 * Describes a plot of series that stand upon each other, or of lines.
 * @param {string} title @param {string} text what there is to say of it in words @param {Series[]} series @param {boolean} [lines]
 */
export function plot(title, text, series, lines) {
  const steps = series[0]?.values.length ?? 0;
  const sums = Array.from({length: steps}, (_, i) => (lines ? Math.max : sum)(...series.map((s) => s.values[i] ?? 0)));
  const top = Math.max(1, ...sums);
  const base = new Array(steps).fill(height);
  const draw = lines ? line : bars;
  const said = [`${title}: ${text}`, ...series.flatMap((s) => s.label ?? [])].join(", ");
  return h("figure", {key: title, class: "plot"},
    h("figcaption", {}, h("b", {}, title), h("span", {}, text), h("span", {}, series.map((s) => s.label
      && h("span", {key: s.class, class: `label ${s.class}`}, s.label)))),
    h("svg", {role: "img", "aria-label": said, viewBox: `0 0 ${steps} ${height}`, preserveAspectRatio: "none"},
      series.map((s) => h("path", {key: s.class, class: s.class, d: draw(s.values, (height - 1) / top, base)}))));
}

/** @param {number[]} values */
const sum = (...values) => values.reduce((a, b) => a + b, 0);

/** Draws a bar for each step, upon those drawn before. @param {number[]} values @param {number} scale @param {number[]} base */
function bars(values, scale, base) {
  let path = "";
  values.forEach((value, i) => {
    if (!value) return;
    const size = Math.max(value * scale, 1);
    path += `M${i} ${base[i].toFixed(1)}v-${size.toFixed(1)}h.8v${size.toFixed(1)}z`;
    base[i] -= size;
  });
  return path;
}

/** Draws a dash for each step that has a value, and a line between neighbours. @param {number[]} values @param {number} scale */
function line(values, scale) {
  let path = "";
  values.forEach((value, i) => {
    if (value) path += `${values[i - 1] ? "L" : "M"}${i} ${(height - value * scale).toFixed(1)}h1`;
  });
  return path;
}

/** A part of a pass, in milliseconds. @typedef {{class: string, ms: number}} Part */

/**
 * Describes a bar of a pass: how long it took of the longest, and in it the handler above and the writes below.
 * @param {string} text @param {number} ms @param {number} longest @param {Part[]} above @param {Part[]} below
 */
export function bar(text, ms, longest, above, below) {
  const scale = 100 / Math.max(longest, 0.001);
  const lane = (/** @type {Part[]} */ parts, /** @type {number} */ y) => {
    let x = 0;
    return parts.map((part, i) => {
      const width = Math.max(part.ms * scale, 0.7);
      x += width;
      const [left, wide] = [(x - width).toFixed(2), Math.max(width - 0.3, 0.4).toFixed(2)];
      return h("rect", {key: `${y} ${i}`, class: part.class, x: left, y, width: wide, height: 5});
    });
  };
  return h("svg", {class: "bar", role: "img", "aria-label": text, viewBox: "0 0 100 12", preserveAspectRatio: "none"},
    h("rect", {class: "whole", x: 0, y: 0, width: Math.max(ms * scale, 0.7).toFixed(2), height: 12}), lane(above, 1), lane(below, 6.5));
}
