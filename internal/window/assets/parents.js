// @ts-check
// The parents of an operator, sorted by what needs a person, and those that a filter lets through.
import {states} from "./state.js";

/** @import {Key, Row} from "./types.js" */
/**
 * A parent in the list. Times are milliseconds, 0 if there is none.
 * @typedef {Key & {key: string, rank: number, state: string, reason: string, since: number, children: number, lastPass: number}} Item
 */

/** Returns what tells a parent apart. @param {string} namespace @param {string} name */
const keyOf = (namespace, name) => `${namespace}/${name}`;

/** Names a parent as people do. @param {Key} parent */
export const nameOf = (parent) => (parent.namespace ? `${parent.namespace}/${parent.name}` : parent.name);

export class Parents {
  /** @type {Map<string, Item>} */
  #items = new Map();
  /** All items. Sorted unless #stale. @type {Item[]} */
  #sorted = [];
  #stale = false;
  #compact = false;

  /** Takes an event of the stream. @param {{all: boolean, set: Row[] | null, gone: [string, string][] | null}} event */
  take({all, set, gone}) {
    if (all) this.clear();
    for (const row of set ?? []) this.#set(row);
    for (const [namespace, name] of gone ?? []) this.#compact = this.#items.delete(keyOf(namespace, name)) || this.#compact;
  }

  clear() {
    this.#items.clear();
    this.#sorted = [];
  }

  /** Items are changed in place, so that the sorted list needs no search for them. @param {Row} row */
  #set([namespace, name, state, reason, since, children, lastPass]) {
    const key = keyOf(namespace, name);
    const known = this.#items.get(key);
    const rank = (states.indexOf(state) + states.length + 1) % (states.length + 1); // unknown ones come last
    const news = {key, namespace, name, state, rank, reason, since: Date.parse(since) || 0, children, lastPass: Date.parse(lastPass) || 0};
    this.#stale ||= !known || known.rank !== rank || known.since !== news.since;
    if (known) Object.assign(known, news);
    else this.#sorted.push(news), this.#items.set(key, news);
  }

  /** Returns all items in their order. It sorts if need be, which is quick for a list that is nearly sorted. */
  sorted() {
    if (this.#compact) this.#sorted = this.#sorted.filter((item) => this.#items.get(item.key) === item);
    if (this.#stale) this.#sorted.sort(compare);
    this.#compact = this.#stale = false;
    return this.#sorted;
  }

  /** Counts the items by state. */
  counts() {
    /** @type {Map<string, number>} */
    const counts = new Map();
    for (const item of this.#items.values()) counts.set(item.state, (counts.get(item.state) ?? 0) + 1);
    return counts;
  }
}

/** Those that need a person come first, and of them those that have waited longest. @param {Item} a @param {Item} b */
function compare(a, b) {
  return a.rank - b.rank || (a.since || Infinity) - (b.since || Infinity) || (a.key < b.key ? -1 : a.key > b.key ? 1 : 0);
}

/** What the list shows: some states, none for all, and a text. @typedef {{states: Set<string>, text: string}} Filter */

/** Returns the items that a filter lets through. @param {Item[]} items @param {Filter} filter */
export function filtered(items, filter) {
  const text = filter.text.trim().toLowerCase();
  if (!text && filter.states.size === 0) return items;
  return items.filter((item) => (filter.states.size === 0 || filter.states.has(item.state))
    && (!text || nameOf(item).toLowerCase().includes(text) || item.reason.toLowerCase().includes(text)));
}
