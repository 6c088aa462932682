// @ts-check
// The figures of an operator: what its process does, what it has done lately, and what it watches.
import {counted, h} from "./dom.js";
import {millis, when} from "./time.js";
import {plot} from "./plot.js";

/** @import {Figures, Plots, Watch} from "./types.js" */
/** @import {Piece} from "./dom.js" */

/** Describes the figures. @param {Figures} f @returns {Piece[]} */
export function figures(f) {
  return [
    h("div", {class: "facts"}, h("span", {}, roles(f)), fact("host", f.host), fact("started", when(f.started)), lease(f), fact("queue",
      `${f.queue} waiting, ${f.running} of ${f.workers} workers busy${f.longestMs ? `, for up to ${millis(f.longestMs)}` : ""}`)),
    f.leading ? "" : notice(`This process stands by: ${f.lease?.holder || "nobody"} leads. States are those that it can see.`),
    f.synced ? "" : notice("The process still reads objects for the first time: what is shown is not complete."),
    h("div", {class: "plots"}, plots(f)),
    watches(f.watches),
  ];
}

/** @param {string} text */
export const notice = (text) => h("p", {class: "notice"}, text);

/** @param {string} name @param {Piece} value */
const fact = (name, value) => h("span", {class: "fact"}, h("span", {class: "faint"}, `${name} `), value);

/** @param {Figures} f */
function roles(f) {
  const mode = (/** @type {string} */ text, /** @type {string} */ look) => h("span", {key: text, class: `badge ${look}`}, text);
  const dry = f.dryRun ? [mode("dry run: nothing is written", "busy")] : [];
  return [f.leading ? mode("leading", "good") : mode("standby", "busy"), ...dry];
}

/** @param {Figures} f */
function lease({lease: l}) {
  if (!l) return fact("lease", "none: there is no election");
  const holder = l.held ? "held by this process" : l.holder ? `held by ${l.holder}` : "held by nobody";
  return h("span", {class: "fact", title: `this process is ${l.identity}`}, h("span", {class: "faint"}, "lease "),
    `${l.namespace}/${l.name}, ${holder}`, ...(l.held && l.renewed ? [", renewed ", when(l.renewed)] : []));
}

/** @param {Figures} f */
function plots({plots: p, queue}) {
  const per = `in ${p.stepSeconds} s`;
  const now = (/** @type {number[]} */ values) => values.at(-2) ?? 0; // the last step isn't over
  const text = (/** @type {number[]} */ values) => `${now(values)} ${per}, at most ${Math.max(0, ...values)}`;
  const total = (/** @type {string} */ verb) => `${verb} ${p.writes[verb].reduce((a, b) => a + b, 0)}`;
  const verbs = Object.keys(p.writes);
  const writes = p.passes.map((_, i) => verbs.reduce((all, verb) => all + p.writes[verb][i], 0));
  const latest = (/** @type {number[]} */ values) => millis([...values].reverse().find((value) => value > 0) ?? 0);
  return [
    plot("Passes", text(p.passes), [{values: p.passes, class: "ink"}]),
    plot("Errors", text(p.errors), [{values: p.errors, class: "bad"}]),
    plot("Writes", text(writes), verbs.map((verb) => ({values: p.writes[verb], class: `verb-${verb}`, label: total(verb)}))),
    plot("Queue", `${queue} now, at most ${Math.max(queue, ...p.queue)}`, [{values: p.queue, class: "ink"}]),
    plot("Event to first write", `at most ${millis(Math.max(0, ...p.p95))}`, [
      {values: p.p50, class: "ink line", label: `p50 ${latest(p.p50)}`}, {values: p.p95, class: "busy line", label: `p95 ${latest(p.p95)}`},
    ], true),
  ];
}

/** @param {Watch[]} all */
function watches(all) {
  const troubled = all.filter((watch) => watch.problem);
  const objects = all.reduce((n, watch) => n + watch.objects, 0);
  return h("details", {class: "watches", open: troubled.length > 0},
    h("summary", {}, `${all.length} watches, ${counted(objects, "object")}`,
      troubled.length ? h("span", {class: "error"}, `, ${troubled.length} with a problem`) : ""),
    h("ul", {}, all.map((watch) => h("li", {key: `${watch.role} ${watch.type}`}, h("b", {}, watch.type),
      ` ${watch.role}, ${counted(watch.objects, "object")}`, watch.bytes ? `, ${bytes(watch.bytes)}` : "",
      watch.heard ? ", heard " : "", watch.heard ? when(watch.heard) : "",
      watch.problem ? h("span", {class: "error"}, `: ${watch.problem}`) : ""))));
}

/** @param {number} n */
const bytes = (n) => (n >= 1 << 20 ? `${(n / (1 << 20)).toFixed(1)} MiB` : `${Math.ceil(n / 1024)} KiB`);
