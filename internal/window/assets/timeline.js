// @ts-check
// The last passes over a parent, and the Events about it.
import {h} from "./dom.js";
import {few, title} from "./explanation.js";
import {bar} from "./plot.js";
import {badge} from "./state.js";
import {millis, when} from "./time.js";

/** @import {Event, Pass, Write} from "./types.js" */

/** Describes passes, the newest first. @param {Pass[]} passes */
export function timeline(passes) {
  if (passes.length === 0) return h("p", {class: "faint"}, "No pass is kept: the process has made none since it began to lead.");
  const longest = Math.max(...passes.map((p) => p.ms));
  return h("ol", {class: "timeline"}, passes.map((p) => pass(p, longest)));
}

/** @param {Pass} p @param {number} longest */
function pass(p, longest) {
  const written = p.writes.reduce((all, w) => all + w.ms, 0);
  const took = [p.call && `${p.call} ${millis(p.callMs)}`, p.writes.length > 0 && `writes ${millis(written)}`,
    p.waitedMs >= 1 && `waited ${millis(p.waitedMs)} before`, p.id && `syncID ${p.id}`].filter(Boolean).join(", ");
  const text = `pass of ${millis(p.ms)}${took ? `: ${took}` : ""}`;
  const writes = p.writes.map((w) => ({class: w.result === "failed" ? "bad" : "write", ms: w.ms}));
  return h("li", {key: p.number, class: p.error ? "pass bad" : "pass"},
    h("div", {class: "what"}, when(p.start),
      h("span", {}, p.trigger || "unknown trigger", p.more ? h("span", {class: "faint"}, ` (+${p.more} more)`) : "")),
    bar(text, p.ms, longest, p.call ? [{class: "call", ms: p.callMs}] : [], writes),
    h("div", {class: "took"}, h("b", {}, millis(p.ms)), h("span", {class: "faint"}, ` ${took}`)),
    h("div", {class: "result"}, p.throttled ? badge("throttled") : "", p.error ? h("p", {class: "error"}, p.error) : "",
      h("ul", {class: "plain", hidden: p.writes.length === 0}, p.writes.map(write),
        p.moreWrites ? h("li", {key: "more", class: "faint"}, `and ${p.moreWrites} more writes`) : "")));
}

/** @param {Write} w @param {number} i */
function write(w, i) {
  return h("li", {key: i}, `${w.verb} `, h("b", {}, title(w)), " → ", badge(w.result),
    w.fields.length > 0 ? h("span", {class: "faint"}, " ", w.fields.flatMap((path, at) => [at ? ", " : "", h("code", {}, path)]),
      w.moreFields ? ` and ${w.moreFields} more` : "") : "", w.error ? h("span", {class: "error"}, ` ${w.error}`) : "");
}

/** Describes Events, the newest first. @param {Event[]} all */
export function events(all) {
  if (all.length === 0) return h("p", {class: "faint"}, "The operator has recorded no Event about the parent.");
  return few(all, (e) => h("li", {key: `${e.time} ${e.reason} ${e.message}`}, badge(e.type), " ", when(e.time), " ",
    h("b", {}, e.reason), ` ${e.message}`));
}
