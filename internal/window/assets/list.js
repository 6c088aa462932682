// @ts-check
// A list of any length, of which only the rows in sight are in the document.
import {h, patch} from "./dom.js";
import {badge} from "./state.js";
import {when} from "./time.js";
import {nameOf} from "./parents.js";

/** @import {Item} from "./parents.js" */

/** How many rows beyond the edges are in the document, too. */
const margin = 8;
const columns = ["State", "Parent", "Reason", "Since", "Children", "Last pass"];

/** What stays of a list when it is shown again. @typedef {{active: string, top: number}} Place */

export class List {
  /** @type {Item[]} */
  #items = [];
  #place;
  #link;

  /** @param {HTMLElement} element @param {Place} place @param {(item: Item) => string} link the address of a parent */
  constructor(element, place, link) {
    this.element = element;
    this.#place = place;
    this.#link = link;
    element.onscroll = () => ((place.top = element.scrollTop), this.draw());
    element.onkeydown = (event) => this.#press(event);
    new ResizeObserver(() => this.draw()).observe(element);
  }

  /** Shows other items, or the same ones changed. @param {Item[]} items */
  show(items) {
    const first = this.#items.length === 0;
    this.#items = items;
    this.draw();
    if (first && items.length > 0 && this.#place.top > 0) this.element.scrollTop = this.#place.top;
  }

  /** Draws the rows in sight. */
  draw() {
    const {element} = this;
    const row = this.#rowHeight();
    const from = Math.max(0, Math.floor(element.scrollTop / row) - margin);
    const to = Math.min(this.#items.length, Math.ceil((element.scrollTop + element.clientHeight) / row) + margin);
    const rows = this.#items.slice(from, to).map((item, i) => this.#row(item, from + i, row));
    const active = rows.find(({props}) => props["aria-selected"]);
    element.setAttribute("aria-rowcount", String(this.#items.length + 1));
    if (active) element.setAttribute("aria-activedescendant", String(active.props.id));
    else element.removeAttribute("aria-activedescendant");
    patch(element, [head(), h("div", {role: "rowgroup", class: "rows", style: {height: `${this.#items.length * row}px`}}, rows)]);
  }

  /** @param {Item} item @param {number} i its place @param {number} height */
  #row(item, i, height) {
    const active = item.key === this.#place.active;
    const cell = (/** @type {string} */ name, /** @type {import("./dom.js").Piece} */ piece) =>
      h("div", {role: "gridcell", class: name}, piece);
    return h("div", {
      key: item.key, id: `row-${item.key}`, role: "row", class: active ? "row active" : "row", "aria-rowindex": i + 2, "aria-selected": active,
      style: {transform: `translateY(${i * height}px)`}, title: item.reason, onclick: () => this.#choose(i),
    }, cell("state", badge(item.state)), cell("name", h("a", {href: this.#link(item), tabindex: -1}, nameOf(item))),
    cell("reason", item.reason), cell("since", item.since ? when(item.since) : ""), cell("children", item.children),
    cell("last", item.lastPass ? when(item.lastPass) : ""));
  }

  /** Returns the height of a row, which the style sheet sets. */
  #rowHeight() {
    return parseFloat(getComputedStyle(this.element).getPropertyValue("--row")) || 36;
  }

  /** @param {KeyboardEvent} event */
  #press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || this.#items.length === 0) return;
    const at = this.#items.findIndex((item) => item.key === this.#place.active);
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.#rowHeight()) - 2);
    const last = this.#items.length - 1;
    /** @type {Record<string, number>} */
    const moves = {ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: last, PageDown: at + page, PageUp: at - page};
    if (event.key in moves) this.#choose(Math.min(Math.max(moves[event.key], 0), last), true);
    else if (event.key === "Enter" && at >= 0) location.hash = this.#link(this.#items[at]);
    else return;
    event.preventDefault();
  }

  /** Makes a row the active one. @param {number} i @param {boolean} [reveal] */
  #choose(i, reveal) {
    this.#place.active = this.#items[i].key;
    if (reveal) this.#reveal(i * this.#rowHeight());
    this.draw();
  }

  /** Scrolls so that a row is in sight, below the head. @param {number} top */
  #reveal(top) {
    const height = this.#rowHeight();
    const room = this.element.clientHeight - this.element.children[0].clientHeight;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    else if (top + height > this.element.scrollTop + room) this.element.scrollTop = top + height - room;
  }
}

const head = () => h("div", {role: "rowgroup", class: "head"}, h("div", {role: "row", class: "row", "aria-rowindex": 1},
  columns.map((name) => h("div", {key: name, role: "columnheader"}, name))));
