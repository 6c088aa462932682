// @ts-check
// The view of what one pass over every parent would change.
import {announce, byID, eachFrame, h, patch} from "./dom.js";
import {fields, title} from "./explanation.js";
import {notice} from "./figures.js";
import {nameOf} from "./parents.js";
import {parentHash} from "./route.js";
import {badge} from "./state.js";
import {address, Answer, read} from "./stream.js";

/** @import {Change, Planned} from "./types.js" */
/** @import {Wanted} from "./dom.js" */
/** @import {View} from "./main.js" */

/** How many parents are shown. All of them are counted. */
const maxShown = 500;

/** What has been found. Descriptions are kept, since a plan only grows. */
class Plan {
  done = 0;
  parents = 0;
  shown = /** @type {Wanted[]} */ ([]);
  found = 0;
  text = "";
  problem = "";
  stop = /** @type {AbortController | null} */ (new AbortController());
}

/** Shows the plan of an operator. @param {HTMLElement} root @param {string} operator @returns {View} */
export function planView(root, operator) {
  /** @type {Plan | null} */
  let plan = null;
  const draw = eachFrame(() => root.isConnected && patch(root, page()));
  const start = () => {
    plan?.stop?.abort();
    plan = new Plan();
    draw();
    void run(plan, operator, draw);
  };
  const page = () => [
    h("h1", {id: "title", tabindex: -1}, `Plan of ${operator || "the operator"}`),
    h("p", {}, "What would one pass over every parent change? The handler is called for each of them, the objects are read, and the API ",
      "server is asked by dry runs. Nothing is written."),
    h("p", {class: "buttons"}, h("button", {type: "button", class: "main", disabled: plan?.stop ? true : null, onclick: start}, "Plan all parents"),
      " ", h("button", {type: "button", disabled: plan?.stop ? null : true, onclick: () => plan?.stop?.abort()}, "Stop")),
    ...(plan ? results(plan) : []),
  ];
  patch(root, page());
  return {stop: () => plan?.stop?.abort(), focus: () => byID("title").focus()};
}

/** Reads the stream of a plan. @param {Plan} plan @param {string} operator @param {() => void} draw */
async function run(plan, operator, draw) {
  const {signal} = /** @type {AbortController} */ (plan.stop);
  const listeners = {
    progress: (/** @type {{done: number, parents: number}} */ news) => void Object.assign(plan, news),
    parent(/** @type {Planned} */ one) {
      plan.found++;
      if (plan.shown.length < maxShown) plan.shown.push(planned(one, operator));
    },
    end(/** @type {{parents: number, changes: number, errors: number}} */ {parents, changes, errors}) {
      Object.assign(plan, {done: parents, parents, text: `Planned ${parents} parents: ${changes} changes, ${errors} errors.`});
    },
    problem: (/** @type {{error: string}} */ {error}) => void (plan.problem = error),
  };
  const drawing = Object.entries(listeners).map(([name, take]) => [name, (/** @type {any} */ data) => (take(data), draw())]);
  const err = await read(address("plan", {operator}), Object.fromEntries(drawing), signal).catch((err) => err);
  if (signal.aborted) plan.text = `Stopped after ${plan.done} of ${plan.parents} parents.`;
  else if (!plan.text && !plan.problem) plan.problem = err instanceof Answer ? err.message : "the connection was lost";
  plan.stop = null;
  announce(plan.text || plan.problem);
  draw();
}

/** @param {Plan} plan */
function results(plan) {
  const rest = plan.found - plan.shown.length;
  return [
    h("div", {class: "progress"}, h("progress", {max: plan.parents || 1, value: 0, key: "bar", "aria-label": "parents planned"}), progressed(plan)),
    plan.problem ? h("p", {class: "notice bad"}, `There is no complete plan: ${plan.problem}`) : "",
    plan.text ? notice(plan.text) : "",
    h("ul", {class: "tree"}, plan.shown),
    rest > 0 ? h("p", {class: "faint"}, `and ${rest} more parents, which the subcommand plan prints`) : "",
  ];
}

/** @param {Plan} plan */
function progressed(plan) {
  const bar = document.querySelector("progress");
  if (bar) bar.value = plan.done;
  return ` ${plan.done} of ${plan.parents} parents, ${plan.found} of them would change or fail`;
}

/** Describes what would become of a parent. @param {Planned} one @param {string} operator */
function planned(one, operator) {
  const changes = one.changes ?? [];
  return h("li", {key: nameOf(one)}, h("details", {open: true},
    h("summary", {}, h("b", {}, nameOf(one)), ` ${changes.length} changes`),
    h("a", {href: parentHash(operator, one)}, "look at the parent"),
    one.error ? h("p", {class: "error"}, `error: ${one.error}`) : "",
    h("ul", {class: "plain"}, changes.map((c) => h("li", {key: `${c.verb} ${title({...c.type, ...c.object})}`}, change(c))))));
}

/** @param {Change} c */
function change(c) {
  return h("div", {}, badge(c.verb), " ", h("b", {}, title({...c.type, ...c.object})), c.waits ? h("span", {class: "faint"}, ` ${c.waits}`) : "",
    c.unsure ? h("span", {class: "faint"}, " (no dry run could tell)") : "", fields(c.fields));
}
