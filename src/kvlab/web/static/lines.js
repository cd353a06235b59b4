/** Answers that come line by line, each a JSON document. Loaded by what uses it: the page itself does without. */

import { ApiError, CLIENT, NO_ANSWER, ask, errorOf } from "./api.js";

/**
 * The lines, as they come. A newer request of this page to the same address ends an older one; so does leaving the
 * loop.
 * @template T
 * @param {string} url
 * @param {{signal?: AbortSignal, headers?: Record<string, string>}} [options]
 * @returns {AsyncGenerator<T, void, void>}
 * @throws {ApiError} what the server refuses, before the first line or as the last
 */
export async function* lines(url, { signal, headers } = {}) {
  const answer = await ask(url, { ...(signal && { signal }), headers: { "X-Client": CLIENT, ...headers } });
  if (!answer.body) throw new ApiError(NO_ANSWER);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (rest + value).split("\n");
      rest = parts.pop() ?? "";
      for (const part of parts) {
        const document = JSON.parse(part);
        if (document.error) throw errorOf(document.error, answer.status);
        yield document;
      }
    }
  } catch (reason) {
    if (reason instanceof TypeError) throw new ApiError(NO_ANSWER); // the connection broke
    throw reason;
  } finally {
    await reader.cancel().catch(() => {});
  }
}
