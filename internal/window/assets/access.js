// @ts-check
// Access to a protected window: the token is kept for as long as the tab is open.
import {byID} from "./dom.js";

const key = "roperator-token";

/** Returns the token that was pasted, "" if none was. */
export const token = () => sessionStorage.getItem(key) ?? "";

/** The wait for somebody to paste a token or to try again. @type {Promise<void> | null} */
let pending = null;

/** Says that the server has refused a request, and returns when it is to be tried again. @param {number} status @param {string} text */
export function refused(status, text) {
  pending ??= show(status, text).finally(() => (pending = null));
  return pending;
}

/** @param {number} status @param {string} text @returns {Promise<void>} */
function show(status, text) {
  const input = /** @type {HTMLInputElement} */ (byID("token"));
  const [section, form, view] = [byID("access"), byID("access-form"), byID("view")];
  const protects = "This window is protected. Paste a token (kubectl create token …)";
  byID("access-text").textContent = status === 401 ? (token() ? `${protects}: the last one was refused.` : `${protects}.`) : text;
  section.hidden = false;
  view.hidden = true;
  const asks = status === 401 || token() !== "";
  for (const part of form.querySelectorAll("label, input")) /** @type {HTMLElement} */ (part).hidden = !asks;
  if (asks) input.focus();
  return new Promise((resolve) => {
    form.onsubmit = (event) => {
      event.preventDefault();
      if (input.value.trim()) sessionStorage.setItem(key, input.value.trim());
      input.value = "";
      section.hidden = true;
      view.hidden = false;
      resolve();
    };
  });
}
