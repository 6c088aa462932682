// @ts-check
// The addresses of the views, which are behind the # of the page's.

/** @import {Key} from "./types.js" */
/** @typedef {{operator: string, view: "overview" | "plan" | "parent", parent: Key}} Route */

const encode = encodeURIComponent;

/** @param {string} operator */
export const overviewHash = (operator) => `#/${encode(operator)}`;

/** @param {string} operator */
export const planHash = (operator) => `#/${encode(operator)}/plan`;

/** A parent without a namespace has "-" in its place. @param {string} operator @param {Key} parent */
export const parentHash = (operator, {namespace, name}) => `#/${encode(operator)}/parent/${encode(namespace || "-")}/${encode(name)}`;

/** Reads an address. @param {string} hash @returns {Route} */
export function routeOf(hash) {
  const [operator = "", view = "", namespace = "", name = ""] = hash.replace(/^#\/?/, "").split("/").map(decoded);
  const parent = {namespace: namespace === "-" ? "" : namespace, name};
  return {operator, view: view === "plan" || (view === "parent" && name) ? /** @type {"plan"} */ (view) : "overview", parent};
}

/** @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
