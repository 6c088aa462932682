// @ts-check
// The document is made to look like a description. Elements that stay keep their identity, and with it focus, scroll
// position and whether details are open. Data become text nodes and attributes, never markup.

/** @typedef {{tag: string, props: Record<string, unknown>, below: Piece[]}} Wanted */
/** @typedef {Wanted | string | number | null | undefined | false} Piece */

const svgTags = new Set(["svg", "path", "rect"]);

/** What each element was last made to look like. @type {WeakMap<globalThis.Node, Wanted>} */
const described = new WeakMap();

/**
 * Describes an element. A prop is an attribute, but: key tells siblings apart, onNAME is a listener, style is an object,
 * open, and value of an input, are what the element begins with. Each item of a list has a key.
 * @param {string} tag @param {Record<string, unknown>} [props] @param {(Piece | Piece[])[]} below @returns {Wanted}
 */
export function h(tag, props = {}, ...below) {
  return {tag, props, below: below.flat()};
}

/** Makes what is below an element look like a description. @param {Element} parent @param {Piece[]} below */
export function patch(parent, below) {
  const keyed = dropUnwanted(parent, below);
  let at = parent.firstChild;
  for (const want of below) {
    const node = fitting(at, want, keyed) ?? create(want);
    if (node === at) at = at.nextSibling;
    else parent.insertBefore(node, at);
    update(node, want);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

/** Removes elements whose key isn't wanted, so that the others needn't move. @param {Element} parent @param {Piece[]} below */
function dropUnwanted(parent, below) {
  const wanted = new Set(below.map(keyOf));
  /** @type {Map<unknown, ChildNode>} */
  const keyed = new Map();
  for (const node of [...parent.childNodes]) {
    const key = described.get(node)?.props.key;
    if (key === undefined) continue;
    if (wanted.has(key)) keyed.set(key, node);
    else node.remove();
  }
  return keyed;
}

/** @param {Piece} piece */
const keyOf = (piece) => (piece && typeof piece === "object" ? piece.props.key : undefined);

/** @param {ChildNode | null} at @param {Piece} want @param {Map<unknown, ChildNode>} keyed */
function fitting(at, want, keyed) {
  if (!want || typeof want !== "object") return at instanceof Text ? at : null;
  const key = want.props.key;
  const node = key === undefined ? at : keyed.get(key);
  keyed.delete(key); // another piece with this key needs a node of its own
  const was = node && described.get(node);
  return was && was.tag === want.tag && was.props.key === key ? /** @type {ChildNode} */ (node) : null;
}

/** Nothing is an empty text, so that what stands behind it stays in its place. @param {Piece} want @returns {ChildNode} */
function create(want) {
  if (!want || typeof want !== "object") return document.createTextNode("");
  if (svgTags.has(want.tag)) return document.createElementNS("http://www.w3.org/2000/svg", want.tag);
  return document.createElement(want.tag);
}

/** @param {ChildNode} node @param {Piece} want */
function update(node, want) {
  if (!(node instanceof Element) || !want || typeof want !== "object") {
    const text = want || want === 0 ? String(want) : "";
    if (node.nodeValue !== text) node.nodeValue = text;
    return;
  }
  const was = described.get(node);
  if (was === want) return;
  described.set(node, want);
  for (const name in was?.props) if (!(name in want.props)) setProp(node, name, undefined, true);
  for (const name in want.props) setProp(node, name, want.props[name], !was);
  patch(node, want.below);
}

/** @param {Element} node @param {string} name @param {any} value @param {boolean} first */
function setProp(node, name, value, first) {
  if (name === "key") return;
  if (name === "style") Object.assign(/** @type {HTMLElement | SVGElement} */ (node).style, value);
  else if (name.startsWith("on")) Object.assign(node, {[name]: value ?? null});
  else if (name === "open" || (name === "value" && node instanceof HTMLInputElement)) first && Object.assign(node, {[name]: value});
  else if (value === undefined || value === null || value === false) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value === true ? "" : String(value));
}

/** Returns an element of the page by its id. @param {string} id @returns {HTMLElement} */
export function byID(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no ${id}`);
  return found;
}

/** Says something to those who hear the page. @param {string} text */
export function announce(text) {
  byID("announcer").textContent = text;
}

/** Prints a number of things, as "1 change" or "2 changes". @param {number} n @param {string} one */
export const counted = (n, one) => `${n} ${one}${n === 1 ? "" : "s"}`;

/** Returns a function that has draw called once in the next frame, however often it is called. @param {() => void} draw */
export function eachFrame(draw) {
  let due = 0;
  const frame = () => {
    due = 0;
    draw();
  };
  return () => void (due ||= requestAnimationFrame(frame));
}
