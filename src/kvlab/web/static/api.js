/** The server's few addresses, and its errors as one class. */

import { decode } from "./payload.js";

/** @typedef {import("./types.js").Changes} Changes */

/** What the server refuses, in its own words. */
export class ApiError extends Error {
  /**
   * @param {string} message
   * @param {string|null} field
   * @param {number} status  0 when no answer came
   */
  constructor(message, field = null, status = 0) {
    super(message);
    this.field = field;
    this.status = status;
  }
}

/** Status of a run that a newer one of the same page took the place of. */
export const CONFLICT = 409;

export const NO_ANSWER = "No answer from the local server. Is “kvlab lab” still running?";

/** Names this page to the server, so that a newer run cancels this page's older one and nobody else's. */
export const CLIENT = Array.from(crypto.getRandomValues(new Uint32Array(2)), (word) => word.toString(36)).join("");

/**
 * One text per setup, whatever the order in which it was set: the address of its run, and its key in caches.
 * @param {string} lab
 * @param {Changes} changes
 */
export function queryOf(lab, changes) {
  const params = new URLSearchParams({ lab });
  for (const name of Object.keys(changes).sort()) params.set(name, changes[name] ?? "");
  return params.toString();
}

/** @returns {Promise<import("./types.js").Labs>} */
export async function fetchLabs() {
  return (await ask("api/labs")).json();
}

/**
 * One finished run, decoded.
 * @param {string} query
 * @param {AbortSignal} signal
 * @param {string|null} [ahead]  settings that are likely to be asked for next, for the server to work on meanwhile
 * @param {string} [purpose]  runs of another purpose do not take each other's place
 */
export async function fetchRun(query, signal, ahead = null, purpose = "run") {
  const headers = { "X-Client": `${CLIENT}-${purpose}`, ...(ahead && { "X-Ahead": ahead }) };
  const answer = await ask(`api/run?${query}`, { signal, headers });
  return decode(await answer.arrayBuffer());
}

/**
 * What is likely to be asked for, before it is; nobody waits for an answer.
 * @param {string} query  of the setup at hand
 * @param {string} ahead  as in `fetchRun`
 */
export function tellAhead(query, ahead) {
  fetch(`api/ahead?${query}`, { headers: { "X-Ahead": ahead } }).catch(() => {});
}

/**
 * Where one request is at a moment: its block tables and its life.
 * @param {string} query
 * @param {number} id
 * @param {number} t  seconds
 * @param {AbortSignal} signal
 * @returns {Promise<import("./types.js").RequestDetail>}
 */
export async function fetchRequest(query, id, t, signal) {
  return (await ask(`api/request?${query}&id=${id}&t=${t}`, { signal, headers: { "X-Client": CLIENT } })).json();
}

/**
 * Where the memory of a server goes, whether it would start or not; null for a lab.
 * @param {string} query
 * @returns {Promise<import("./types.js").Waterfall|null>}
 */
export async function fetchMemory(query) {
  return (await ask(`api/memory?${query}`)).json();
}

/**
 * What a pasted command means.
 * @param {string} text
 * @param {string} gpu
 * @returns {Promise<import("./types.js").Pasted>}
 */
export async function fetchCommand(text, gpu) {
  return (await ask(`api/command?${new URLSearchParams({ text, gpu })}`)).json();
}

/** @param {string} query @returns {Promise<Blob>} */
export async function fetchScenario(query) {
  return (await ask(`api/scenario?${query}`)).blob();
}

/**
 * Hands a trace file to the local server.
 * @param {File} file
 * @returns {Promise<{trace: string, requests: number, describe: Record<string, unknown>}>}
 */
export async function sendTrace(file) {
  const name = encodeURIComponent(file.name);
  return (await ask(`api/trace?name=${name}`, { method: "POST", body: file })).json();
}

/** @param {string} url @param {RequestInit} [init] */
export async function ask(url, init) {
  let answer;
  try {
    answer = await fetch(url, init);
  } catch (reason) {
    if (reason instanceof DOMException && reason.name === "AbortError") throw reason;
    throw new ApiError(NO_ANSWER);
  }
  if (answer.ok) return answer;
  throw await refusal(answer);
}

/**
 * The error of an answer or of a line.
 * @param {{message: unknown, field?: string|null}} error
 * @param {number} status
 */
export function errorOf(error, status) {
  return new ApiError(String(error.message), error.field ?? null, status);
}

/** @param {Response} answer */
async function refusal(answer) {
  try {
    return errorOf((await answer.json()).error, answer.status);
  } catch {
    return new ApiError(`The server answered ${answer.status} ${answer.statusText}.`, null, answer.status);
  }
}
