// @ts-check
// The states of parents and children, in the order in which they need a person, and how they look.
import {h} from "./dom.js";

/** Each state of a parent, with its sign. @type {[string, string][]} */
const signs = [
  ["throttled", "◆"], ["failing", "✕"], ["not selected", "○"], ["waiting", "◔"], ["not ready", "◐"],
  ["pending", "▲"], ["finalizing", "▽"], ["paused", "‖"], ["settled", "✓"],
];
const signOf = new Map(signs);

/** The states in their order. */
export const states = signs.map(([state]) => state);

/** Those that a person has to look at. */
export const alarming = new Set(["throttled", "failing", "not selected"]);

const good = new Set(["settled", "as desired", "written", "Current", "found"]);
const bad = new Set([...alarming, "missing", "foreign", "undesired", "not served", "failed", "Failed", "Warning"]);
const plain = new Set(["paused", "left alone", "not compared", "redundant", "Normal"]);

/** Says whether a state looks good, bad, plain or like something on its way. @param {string} state */
export function lookOf(state) {
  if (good.has(state)) return "good";
  if (bad.has(state)) return "bad";
  return plain.has(state) ? "plain" : "busy";
}

/** Describes a state by sign, colour and word. @param {string} state @param {string} [more] what is said beside the word */
export function badge(state, more = "") {
  const look = lookOf(state);
  const sign = signOf.get(state) ?? {good: "✓", bad: "✕", plain: "‖", busy: "▲"}[look];
  return h("span", {class: `badge ${look}`}, h("span", {class: "sign", "aria-hidden": "true"}, sign), state + more);
}
