// @ts-check
// The view of what one pass over every parent would change.
import {announce, byID, counted, eachFrame, h, patch} from "./dom.js";
import {fields, keyOf, title} from "./explanation.js";
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
    h("p", {class: "buttons"},
      h("button", {type: "button", class: "main", disabled: Boolean(plan?.stop), onclick: start}, "Plan all parents"), " ",
      h("button", {type: "button", disabled: !plan?.stop, onclick: () => plan?.stop?.abort()}, "Stop")),
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
      const text = `Planned ${counted(parents, "parent")}: ${counted(changes, "change")}, ${counted(errors, "error")}.`;
      Object.assign(plan, {done: parents, parents, text});
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
    h("div", {class: "progress"}, h("progress", {max: plan.parents || 1, value: plan.done, "aria-label": "parents planned"}),
      ` ${plan.done} of ${counted(plan.parents, "parent")}, ${plan.found} of them would change or fail`),
    plan.problem ? h("p", {class: "notice bad"}, `There is no complete plan: ${plan.problem}`) : "",
    plan.text ? h("p", {class: "notice plain"}, plan.text) : "",
    h("ul", {class: "tree"}, plan.shown),
    rest > 0 ? h("p", {class: "faint"}, `and ${counted(rest, "more parent")}, which the subcommand plan prints`) : "",
  ];
}

/** Describes what would become of a parent. @param {Planned} one @param {string} operator */
function planned(one, operator) {
  const changes = one.changes ?? [];
  return h("li", {key: nameOf(one)}, h("details", {open: true},
    h("summary", {}, h("b", {}, nameOf(one)), ` ${counted(changes.length, "change")} `, one.error ? badge("failed") : ""),
    h("div", {class: "below"}, h("a", {href: parentHash(operator, one)}, "look at the parent"),
      one.error ? h("p", {class: "error"}, `error: ${one.error}`) : "", h("ul", {class: "plain"}, changes.map(change)))));
}

/** @param {Change} c */
function change(c) {
  const object = {...c.type, ...c.object};
  return h("li", {key: `${c.verb} ${keyOf(object)}`}, badge(c.verb), " ", h("b", {}, title(object)),
    h("span", {class: "faint"}, c.waits && ` ${c.waits}`, c.unsure && " (no dry run could tell)"), fields(c.fields));
}
