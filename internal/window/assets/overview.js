// @ts-check
// The view of all parents of an operator.
import {announce, byID, counted, eachFrame, h, patch} from "./dom.js";
import {figures, notice} from "./figures.js";
import {List} from "./list.js";
import {filtered, Parents} from "./parents.js";
import {alarming, badge, states} from "./state.js";
import {address, follow} from "./stream.js";
import {parentHash} from "./route.js";

/** @import {Figures} from "./types.js" */
/** @import {View} from "./main.js" */

/** The filter, and the place in the list, stay while other views are shown. */
const filter = {states: new Set(), text: ""};
const place = {active: "", top: 0};

/**
 * Shows the parents of an operator, "" for the first. begun is told which operators there are.
 * @param {HTMLElement} root @param {string} operator @param {(operators: string[], operator: string) => void} begun @returns {View}
 */
export function overview(root, operator, begun) {
  const parents = new Parents();
  const now = {operator, running: true, begun: false, figures: /** @type {Figures | null} */ (null)};
  const draw = eachFrame(() => root.isConnected && show());
  patch(root, frame(draw));
  const list = new List(byID("list"), place, (item) => parentHash(now.operator, item));
  const alarm = alarms();

  function show() {
    const all = parents.sorted();
    const shown = filtered(all, filter);
    patch(byID("title"), [now.operator || "Operator", now.figures ? h("span", {class: "faint"}, ` ${now.figures.parent}`) : ""]);
    patch(byID("figures"), now.running && now.figures ? figures(now.figures) : []);
    patch(byID("chips"), chips(parents.counts(), all.length, draw));
    patch(byID("words"), words(now, all.length, shown.length));
    byID("count").textContent = (shown.length === all.length ? "" : `${shown.length} of `) + counted(all.length, "parent");
    byID("parents").hidden = !now.running || all.length === 0;
    list.show(shown);
    alarm(all.filter((item) => alarming.has(item.state)).length);
  }

  const stop = follow(address("overview", {operator}), {
    begin(/** @type {{operators: string[], operator: string, running: boolean}} */ data) {
      Object.assign(now, {operator: data.operator, running: data.running, begun: true, figures: null});
      if (!data.running) parents.clear();
      begun(data.operators, data.operator);
      draw();
    },
    parents: (/** @type {any} */ data) => (parents.take(data), draw()),
    figures: (/** @type {Figures} */ data) => ((now.figures = data), draw()),
  });
  return {stop, focus: () => (place.active ? byID("list") : byID("title")).focus(), search: () => byID("search").focus()};
}

/** Describes what stays as long as the view is shown. @param {() => void} draw */
function frame(draw) {
  const typed = (/** @type {Event} */ event) => {
    filter.text = /** @type {HTMLInputElement} */ (event.target).value;
    draw();
  };
  return [
    h("h1", {id: "title", tabindex: -1}, "Operator"),
    h("div", {id: "figures"}),
    h("div", {id: "words"}, notice("Connecting to the operator.")),
    h("section", {id: "parents", class: "parents", "aria-label": "Parents", hidden: true},
      h("div", {class: "filters"},
        h("div", {id: "chips", class: "chips", role: "group", "aria-label": "States"}),
        h("label", {class: "search"}, h("span", {}, "Filter"), h("input", {
          id: "search", type: "search", placeholder: "name or reason ( / )", autocomplete: "off", spellcheck: "false",
          value: filter.text, oninput: typed,
        })),
        h("span", {id: "count", class: "faint"})),
      h("div", {id: "list", class: "list", role: "grid", "aria-label": "Parents", tabindex: 0})),
  ];
}

/** Describes a button for each state. @param {Map<string, number>} counts @param {number} all @param {() => void} draw */
function chips(counts, all, draw) {
  const chip = (/** @type {string} */ state, /** @type {boolean} */ pressed, /** @type {import("./dom.js").Piece[]} */ ...below) =>
    h("button", {key: state, type: "button", "aria-pressed": String(pressed), onclick: () => {
      if (state === "") filter.states.clear();
      else if (!filter.states.delete(state)) filter.states.add(state);
      draw();
    }}, ...below);
  const seen = [...states, ...counts.keys()].filter((state, i, list) => list.indexOf(state) === i);
  return [chip("", filter.states.size === 0, `all ${all}`), ...seen.filter((state) => counts.has(state) || filter.states.has(state))
    .map((state) => chip(state, filter.states.has(state), badge(state), ` ${counts.get(state) ?? 0}`))];
}

/**
 * Says why there is nothing to see.
 * @param {{begun: boolean, running: boolean, operator: string}} now @param {number} all @param {number} shown
 */
function words(now, all, shown) {
  if (!now.begun) return [notice("Connecting to the operator.")];
  if (!now.running) return [notice(`The operator ${now.operator} does not run in this process now. This page goes on when it does.`)];
  if (all === 0) return [notice("There are no parents: no object of the type exists where the operator looks.")];
  return shown === 0 ? [notice("No parent matches the filter.")] : [];
}

/** Returns a function that tells of how many parents need a person, when that has changed. */
function alarms() {
  let told = 0;
  return (/** @type {number} */ count) => {
    const some = `${counted(count, "parent")} ${count === 1 ? "needs" : "need"} a person`;
    if (count !== told) announce(count ? some : "No parent needs a person any more");
    told = count;
  };
}
