// @ts-check
// Streams of events from the server. They are read by fetch, since an EventSource sends no token.
import {byID} from "./dom.js";
import {refused, token} from "./access.js";

/** What is done with the events of a stream, by their names. @typedef {Record<string, (data: any) => void>} Listeners */

const [firstWait, longestWait] = [1000, 15000];

/** Returns the address of a resource of the server. @param {string} name @param {Record<string, string>} query */
export const address = (name, query) => `window/${name}?${new URLSearchParams(query)}`;

/**
 * Asks the server, if need be again with a token, until it answers. Throws with the server's words if it can't.
 * @param {string} url @param {AbortSignal} [signal]
 */
export async function ask(url, signal) {
  for (;;) {
    const headers = new Headers(token() ? {Authorization: `Bearer ${token()}`} : {});
    const response = await fetch(url, {headers, signal, cache: "no-store"});
    if (response.ok) return response;
    const text = (await response.text()).trim() || `the server has answered ${response.status}`;
    if (response.status !== 401 && response.status !== 403) throw new Answer(text);
    await refused(response.status, text);
  }
}

/** An answer of the server's that is no success. */
export class Answer extends Error {}

/** Reads one stream to its end. @param {string} url @param {Listeners} on @param {AbortSignal} signal */
export async function read(url, on, signal) {
  const response = await ask(url, signal);
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  const parse = parser(on);
  for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) parse(part.value);
}

/** Returns a function that takes the text of a stream in pieces. @param {Listeners} on @returns {(piece: string) => void} */
function parser(on) {
  let rest = "";
  let name = "";
  return (piece) => {
    const lines = (rest + piece).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line.startsWith("event:")) name = line.slice(6).trim();
      else if (line.startsWith("data:")) deliver(on, name, JSON.parse(line.slice(5)));
    }
  };
}

/** Calls a listener, whose mistakes are none of the connection. @param {Listeners} on @param {string} name @param {unknown} data */
function deliver(on, name, data) {
  try {
    on[name]?.(data);
  } catch (mistake) {
    reportError(mistake);
  }
}

/** Reads a stream again and again, until the function that it returns is called. @param {string} url @param {Listeners} on */
export function follow(url, on) {
  const stop = new AbortController();
  void keepReading(url, on, stop.signal);
  return () => (stop.abort(), say(""));
}

/** @param {string} url @param {Listeners} on @param {AbortSignal} signal */
async function keepReading(url, on, signal) {
  let wait = firstWait;
  const listeners = {...on, begin: (/** @type {unknown} */ data) => {
    wait = firstWait;
    say("");
    on.begin?.(data);
  }};
  while (!signal.aborted) {
    const text = await read(url, listeners, signal).then(() => "", (err) => (err instanceof Answer ? err.message : ""));
    if (signal.aborted) return;
    say(`${text || "connection lost"}, trying again`);
    await new Promise((done) => setTimeout(done, wait));
    wait = Math.min(2 * wait, longestWait);
  }
}

/** Shows a line about the connection. @param {string} text */
export function say(text) {
  if (byID("status").textContent !== text) byID("status").textContent = text;
}
