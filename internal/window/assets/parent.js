// @ts-check
// The view of one parent.
import {token} from "./access.js";
import {announce, byID, eachFrame, h, patch} from "./dom.js";
import {children, conditions, loop, parentFacts, processFacts, related} from "./explanation.js";
import {notice} from "./figures.js";
import {nameOf} from "./parents.js";
import {overviewHash} from "./route.js";
import {badge} from "./state.js";
import {address, ask, follow, say} from "./stream.js";
import {events, timeline} from "./timeline.js";

/** @import {Explanation, Family, Key} from "./types.js" */
/** @import {Piece} from "./dom.js" */
/** @import {View} from "./main.js" */

/** What is known of the parent. */
/** @typedef {{unknown: boolean, problem: string, family: Family | null, explanation: Explanation | null}} Known */

/** Shows a parent. @param {HTMLElement} root @param {string} operator @param {Key} parent @returns {View} */
export function parentView(root, operator, parent) {
  const query = {operator, ...parent};
  const known = /** @type {Known} */ ({unknown: false, problem: "", family: null, explanation: null});
  /** @type {Set<string>} */
  const opened = new Set();
  const draw = eachFrame(() => root.isConnected && patch(root, page()));
  const learn = (/** @type {Partial<Known>} */ news) => {
    const was = known.explanation?.parent.state;
    Object.assign(known, news);
    const is = known.explanation?.parent.state;
    if (was && is && was !== is) announce(`${nameOf(parent)} is ${is} now`);
    draw();
  };
  const page = () => [
    h("p", {class: "back"}, h("a", {href: overviewHash(operator)}, `← all parents of ${operator || "the operator"}`)),
    h("h1", {id: "title", tabindex: -1}, known.explanation ? `${known.explanation.parent.kind} ` : "", nameOf(parent)),
    ...(known.unknown ? [notice("The operator knows no such parent. If one comes to be, it is shown here.")] : about(known, opened, draw)),
    recording(query),
  ];
  patch(root, page());
  const stop = follow(address("parent", query), {
    family: (/** @type {Family} */ family) => learn({family, unknown: false}),
    unknown: () => learn({unknown: true, family: null, explanation: null, problem: ""}),
    explanation: (/** @type {Explanation} */ explanation) => learn({explanation, problem: "", unknown: false}),
    problem: (/** @type {{error: string}} */ {error}) => learn({problem: error}),
  });
  return {stop, focus: () => byID("title").focus()};
}

/** @param {Known} known @param {Set<string>} opened @param {() => void} draw @returns {Piece[]} */
function about({problem, family, explanation: e}, opened, draw) {
  const process = family?.process ?? e?.process;
  const found = process?.loop ?? e?.process.loop;
  const no = `There is no explanation at the moment${e ? ", and the one below is older" : ""}: ${problem}`;
  return [
    h("div", {class: "head"}, e ? [badge(e.parent.state), ...parentFacts(e.parent)] : faint("Waiting for an explanation.")),
    problem ? h("p", {class: "notice bad", role: "status"}, no) : "",
    found ? loop(found) : "",
    process ? part(`Process ${process.from ?? ""}`, ...processFacts(process, e)) : "",
    e?.parent.conditions?.length ? part("Conditions", conditions(e.parent.conditions)) : "",
    e ? part("Children", e.children?.length ? children(e.children, opened, draw) : faint("There is no child, and none is desired.")) : "",
    e?.related?.length ? part("Related objects", related(e.related)) : "",
    family ? part("Last passes", timeline(family.passes)) : "",
    family ? part("Events", events(family.events)) : "",
  ];
}

/** @param {string} text */
const faint = (text) => h("p", {class: "faint"}, text);

/** Describes a part of the view. @param {string} title @param {Piece[]} below */
const part = (title, ...below) => h("section", {class: "part"}, h("h2", {}, title), ...below);

/** Describes a link to a recording. With a token, which no link sends, the file is fetched. @param {Record<string, string>} query */
function recording(query) {
  const href = address("recording", query);
  const fetched = (/** @type {MouseEvent} */ event) => {
    if (!token()) return;
    event.preventDefault();
    download(href).catch((err) => say(`no recording: ${err.message}`));
  };
  return h("p", {class: "recording"}, h("a", {href, download: "", class: "button", onclick: fetched}, "Download as a regression test"),
    h("span", {class: "faint"}, " calls of the handler for this parent, which testkit.Replay takes"));
}

/** @param {string} href */
async function download(href) {
  const response = await ask(href);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = /filename="?([^";]+)/.exec(response.headers.get("Content-Disposition") ?? "")?.[1] ?? "recording.json";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
