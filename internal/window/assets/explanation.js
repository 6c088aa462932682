// @ts-check
// Why a parent and its children are as they are: the same as the subcommand explain prints.
import {counted, h} from "./dom.js";
import {badge} from "./state.js";
import {when} from "./time.js";

/** @import {Child, Condition, Explanation, Field, Loop, Named, Parent, Process, Related, Writer} from "./types.js" */
/** @import {Piece, Wanted} from "./dom.js" */

/** How many characters of a value are shown. */
const maxValue = 200;

/** How many things are shown that are alike; the others are counted, and shown if somebody wants them. */
export const maxAlike = 20;

/** Names an object as "Deployment shop/web". @param {Named} o */
export const title = (o) => `${o.kind} ${o.namespace ? `${o.namespace}/` : ""}${o.name}`;

/** @param {Named} o */
export const keyOf = (o) => `${o.apiVersion} ${title(o)}`;

/** Describes a line. @param {(Piece | Piece[])[]} below */
const line = (...below) => h("p", {}, ...below);

/** Describes lines that have a text. @param {string} label @param {string | undefined} text @param {string} [look] */
const told = (label, text, look) => (text ? h("p", {class: look}, label && h("span", {class: "faint"}, `${label} `), text) : "");

/** Describes the first things of a list. @template T @param {T[] | null | undefined} all @param {(one: T, i: number) => Wanted} one */
export function few(all, one) {
  const list = all ?? [];
  const rest = list.length - maxAlike;
  return h("ul", {class: "plain", hidden: list.length === 0}, list.slice(0, maxAlike).map(one),
    rest > 0 ? h("li", {key: "rest", class: "faint"}, `and ${rest} more`) : "");
}

/** Describes what there is to say of the parent itself, but for its state. @param {Parent} p @returns {Piece[]} */
export function parentFacts(p) {
  return [
    told("", p.reason), told("error:", p.error, "error"),
    p.failingSince ? line("failing since ", when(p.failingSince)) : "",
    p.deletedAt ? line("deleted ", when(p.deletedAt), p.finalizers?.length ? `, finalizers: ${p.finalizers.join(", ")}` : "") : "",
    p.generation && p.observedGeneration ? line(`generation ${p.generation}, and the status is of generation ${p.observedGeneration}`) : "",
    fields(p.fields),
  ];
}

/** Describes conditions. @param {Condition[]} all */
export function conditions(all) {
  return h("ul", {class: "plain"}, all.map((c) => h("li", {key: c.type}, h("b", {}, c.type), `=${c.status} `, c.reason,
    ...(c.lastTransitionTime ? [h("span", {class: "faint"}, " since ", when(c.lastTransitionTime))] : []), c.message && `: ${c.message}`)));
}

/** Describes a conflict loop, of which a Secret's single value is hidden. @param {Loop} l */
export function loop(l) {
  const values = l.values ?? [];
  return h("div", {class: "notice"}, line(h("b", {}, "Conflict loop: "), `${title(l)}, ${l.writes} writes`, l.path && " of ",
    l.path && h("code", {}, l.path)), values.length > 1 ? line("which alternates between ",
    values.flatMap((v, i) => [i ? " and " : "", h("code", {}, v)])) : "");
}

/**
 * Describes children. Of those that are alike the first are shown, and the others when somebody wants them.
 * @param {Child[]} all @param {Set<string>} opened the likenesses of which all are shown @param {() => void} draw
 */
export function children(all, opened, draw) {
  /** @type {Map<string, number>} */
  const alike = new Map();
  const out = [];
  for (const c of all) {
    const more = details(c);
    const likeness = `${c.apiVersion} ${c.kind}: ${stateOf(c)}${more.length > 0 ? "" : ", no more to say"}`;
    const n = (alike.get(likeness) ?? 0) + 1;
    alike.set(likeness, n);
    if (n <= maxAlike || opened.has(likeness)) out.push(child(c, more));
  }
  const crowds = [...alike].filter(([likeness, n]) => n > maxAlike && !opened.has(likeness));
  return h("ul", {class: "tree"}, out, crowds.map(([likeness, n]) => h("li", {key: likeness}, h("button", {type: "button", onclick: () => {
    opened.add(likeness);
    draw();
  }}, `${n - maxAlike} more of ${likeness}`))));
}

/** @param {Child} c */
const stateOf = (c) => c.state + (c.verb ? `, to be ${c.verb.replace(/e$/, "")}ed` : "");

/** @param {Child} c @param {Wanted[]} more */
function child(c, more) {
  const head = [h("b", {}, title(c)), " ", badge(c.state, stateOf(c).slice(c.state.length)),
    c.readiness ? h("span", {class: "faint"}, ` ${c.readiness}`) : ""];
  return h("li", {key: keyOf(c)}, more.length === 0 ? h("div", {class: "leaf"}, head)
    : h("details", {open: true}, h("summary", {}, head), h("div", {class: "below"}, more)));
}

/** Says why a child is in its state. @param {Child} c */
function details(c) {
  const out = [];
  const add = (/** @type {string} */ key, /** @type {string} */ text, look = "") => out.push(h("p", {key, class: look}, text));
  if (c.reason) add("reason", c.reason);
  if (c.waitsFor?.length) out.push(h("div", {key: "waits"}, few(c.waitsFor, (o) => h("li", {key: keyOf(o)}, `waits for ${title(o)}`))));
  if (c.error && c.state !== "foreign") add("error", `error: ${c.error}`, "error"); // which the reason of a foreign one says
  if (c.finalizers?.length) add("finalizers", `finalizers: ${c.finalizers.join(", ")}`);
  const ready = !c.readiness || c.readiness === "Current" || c.state === "deleting";
  if (!ready) add("readiness", `not Current: ${c.readiness}: ${c.readinessMessage ?? ""}`);
  if (c.fields?.length) out.push(h("div", {key: "fields"}, fields(c.fields)));
  return out;
}

/** Describes fields in which an object differs from what is desired. @param {Field[] | undefined} all */
export function fields(all) {
  return few(all, (f) => h("li", {key: f.path, class: "field"}, h("code", {}, f.path || "the whole object"),
    h("div", {class: "live"}, h("span", {class: "faint"}, "live "), h("code", {}, f.live === null ? "absent" : value(f.live)), writer(f)),
    h("div", {class: "desired"}, h("span", {class: "faint"}, "desired "),
      h("code", {}, f.desired === null ? "to be removed" : value(f.desired)))));
}

/** Says who has written the live value of a field. @param {Field} f */
function writer(f) {
  const say = (/** @type {Piece[]} */ ...below) => h("span", {class: "faint"}, " (", ...below, ")");
  if (f.by?.self) return say("by the operator, ", when(f.by.time));
  if (f.by) return say("by ", who(f.by), when(f.by.time));
  return f.perhaps ? say("nobody owns it; the last other writer of the object is ", who(f.perhaps), when(f.perhaps.time)) : "";
}

/** Names a field manager, but one that may quote a Secret. @param {Writer} w */
function who(w) {
  const manager = w.manager === "(hidden)" ? "another manager, whose name is hidden" : JSON.stringify(w.manager);
  return `${manager}, ${w.operation}${w.subresource ? ` of ${w.subresource}` : ""}, `;
}

/** @param {unknown} v */
function value(v) {
  const characters = [...(JSON.stringify(v) ?? "?").slice(0, 2 * maxValue + 1)]; // a character has one or two units
  return characters.length > maxValue ? `${characters.slice(0, maxValue).join("")}…` : characters.join("");
}

/** Describes references of the parent. @param {Related[]} all */
export function related(all) {
  return h("ul", {class: "tree"}, all.map((r) => {
    const found = r.found ?? [];
    const [state, more] = r.notServed ? ["not served", `: the API server does not know ${r.apiVersion} ${r.kind}`]
      : found.length === 0 ? (r.name ? ["missing", ""] : ["nothing found", ""]) : ["found", r.name ? "" : `: ${found.length}`];
    const named = {...r, name: r.name || `[${r.selector ?? ""}]`};
    return h("li", {key: keyOf(named)}, h("b", {}, title(named)), " ", badge(state, more),
      h("span", {class: "faint"}, ` (from ${(r.from ?? []).join(", ")})`),
      r.name ? "" : few(found, (o) => h("li", {key: keyOf(o)}, title(o))));
  }));
}

/** Describes what the process knows of a parent. @param {Process} p @param {Explanation | null} e what is said elsewhere */
export function processFacts(p, e) {
  if (p.unknown) return [line(`What the running process knows is not here: ${p.unknown}`)];
  const failed = (p.childErrors ?? []).filter((f) => !e?.children?.some((c) => keyOf(c) === keyOf(f)));
  const since = p.failingSince && p.failingSince !== e?.parent.failingSince;
  return [
    line(doing(p)),
    p.failures ? line(`${counted(p.failures, "failure")} in a row`, ...(since ? [", since ", when(p.failingSince)] : [])) : "",
    p.lastError && p.lastError !== e?.parent.error ? told("last error:", p.lastError, "error") : "",
    few(failed, (f) => h("li", {key: `${f.verb} ${keyOf(f)}`, class: "error"}, `${title(f)}: ${f.verb}: ${f.message}`)),
    few(p.waits, (text, i) => h("li", {key: i}, text)),
  ];
}

/** Says in a few words what the process does about the parent. @param {Process} p @returns {Piece[]} */
function doing(p) {
  /** @type {Piece[]} */
  const out = [];
  if (!p.leading) out.push(`It waits for the lease${p.held ? ": another process leads" : ", and does not know the parent"}.`);
  else if (!p.held) out.push("It does not know the parent.");
  else if (p.running) {
    out.push("A pass is under way, begun ", when(p.runningSince), p.call ? `, and the handler's ${p.call} has not returned.` : ".");
  } else if (p.queued) out.push(`The parent is due, ${p.place ? `queued at place ${p.place}` : "and the next to have a pass"}.`);
  else if (!p.nextPass) out.push(p.failures ? "The next pass comes when something changes." : "Nothing is due.");
  if (p.nextPass) out.push(" The next pass is due ", when(p.nextPass), p.trigger ? `: ${p.trigger}.` : ".");
  if (p.throttled) out.push(" It is throttled.");
  return out;
}
