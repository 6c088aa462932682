// @ts-check
// The page: it shows the view that the address names.
import {byID, h, patch} from "./dom.js";
import {overview} from "./overview.js";
import {parentView} from "./parent.js";
import {planView} from "./plan.js";
import {overviewHash, planHash, routeOf} from "./route.js";

/** A view that is shown. @typedef {{stop: () => void, focus: () => void, search?: () => void}} View */

/** @type {View | null} */
let view = null;
let shown = "";

/** Shows the view of the address. */
function go() {
  const route = routeOf(location.hash);
  const address = JSON.stringify(route);
  if (address === shown) return;
  const first = shown === "";
  shown = address;
  view?.stop();
  const root = document.createElement("div");
  root.className = route.view;
  byID("view").replaceChildren(root);
  name(route.operator);
  if (route.view === "plan") view = planView(root, route.operator);
  else if (route.view === "parent") view = parentView(root, route.operator, route.parent);
  else view = overview(root, route.operator, begun);
  if (!first) view.focus();
}

/** Names the operator in the title, and in the links to its views. @param {string} operator */
function name(operator) {
  const {view, parent} = routeOf(location.hash);
  document.title = [view === "parent" ? parent.name : view === "plan" ? "plan" : "parents", operator].filter(Boolean).join(" · ");
  for (const [id, hash, current] of [["to-overview", overviewHash(operator), "overview"], ["to-plan", planHash(operator), "plan"]]) {
    byID(id).setAttribute("href", hash);
    byID(id).ariaCurrent = view === current ? "page" : null;
  }
  /** @type {HTMLSelectElement} */ (byID("operator")).value = operator;
}

/** Takes note of which operators there are. @param {string[]} operators @param {string} operator */
function begun(operators, operator) {
  if (routeOf(location.hash).operator !== operator) {
    history.replaceState(null, "", overviewHash(operator));
    shown = JSON.stringify(routeOf(location.hash));
  }
  patch(byID("operator"), operators.map((name) => h("option", {key: name, value: name}, name)));
  byID("operators").hidden = operators.length < 2;
  name(operator);
}

byID("operator").onchange = (event) => {
  location.hash = overviewHash(/** @type {HTMLSelectElement} */ (event.target).value);
};
byID("skip").onclick = (event) => {
  event.preventDefault();
  byID("main").focus();
};
document.onkeydown = (event) => {
  const typing = event.target instanceof HTMLElement && event.target.closest("input, select, textarea");
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || typing || !view?.search) return;
  event.preventDefault();
  view.search();
};
onhashchange = go;
go();
