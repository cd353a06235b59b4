/** Pieces of a mission's card: stars, goals, the guess before and after, the reward. */

import { h, icon } from "./dom.js";

/** @typedef {import("./types.js").MissionCard} Card */
/** @typedef {import("./types.js").Verdict} Verdict */

/** @param {number} count */
export function starRow(count) {
  return h(
    "span",
    { class: "stars", role: "img", "aria-label": count ? `${count} of 3 stars` : "not solved yet" },
    ...[1, 2, 3].map((nth) => {
      const star = icon("star");
      if (nth <= count) star.classList.add("full");
      return star;
    }),
  );
}

/** @param {number} count */
export function points(count) {
  return count === 1 ? "1 point" : `${count} points`;
}

/** @param {Card} card @param {Verdict|undefined} verdict  on the run that is shown */
export function goalList(card, verdict) {
  const items = card.goals.map(({ text }, i) => {
    const result = verdict?.goals[i];
    const [name = "", limit = ""] = text.split(": ");
    return h(
      "li",
      { class: result?.met ? "met" : "" },
      icon(result?.met ? "check" : "open"),
      h("span", {}, h("span", { class: "sr-only" }, result?.met ? "met: " : "not met: "), name),
      h("b", {}, result?.value ?? ""),
      h("small", {}, limit),
    );
  });
  return h("ul", { class: "goals", "aria-label": "Goals" }, ...items);
}

/**
 * Asked before the first lever can be moved.
 * @param {Card} card
 * @param {(option: number) => void} guess  told the option, or -1 when the reader would not guess
 */
export function questionOf(card, guess) {
  const options = card.question?.options ?? [];
  return h(
    "fieldset",
    { class: "question" },
    h("legend", {}, "First, a guess"),
    h("p", {}, card.question?.text ?? ""),
    ...options.map((text, i) => h("button", { type: "button", click: () => guess(i) }, text)),
    h("button", { type: "button", class: "quiet", click: () => guess(-1) }, "Skip"),
  );
}

/**
 * What was guessed and, once the reader has moved a lever, what is true; null without a guess.
 * @param {Card} card
 * @param {number|undefined} guess
 * @param {boolean} moved
 */
export function guessLine({ question }, guess, moved) {
  const mine = guess === undefined ? undefined : question?.options[guess];
  if (!question || mine === undefined) return null;
  const { text, options, answer } = question;
  if (!moved || answer === undefined) return h("p", { class: "guess" }, `${text} You guessed: ${mine}. Now see.`);
  const right = guess === answer;
  const outcome = right ? `You guessed right: ${mine}.` : `You guessed: ${mine}. It is: ${options[answer]}.`;
  return h("p", { class: right ? "guess right" : "guess" }, `${text} `, h("b", {}, outcome));
}

/** Flags and names of metrics in a text: to be set apart, and never broken at a hyphen. */
const NAMES = /(--[a-z][a-z-]*[a-z]|vllm:[a-z_]+)/;

/** @param {string} text */
function withCode(text) {
  return text.split(NAMES).map((part, i) => (i % 2 ? h("code", {}, part) : part));
}

/** @param {Card} card @param {Verdict} verdict */
export function rewardOf(card, verdict) {
  const more = verdict.stars < 3 ? " A cheaper fix earns more." : "";
  return [
    h(
      "div",
      { class: "reward", role: "status" },
      starRow(verdict.stars),
      h("b", {}, `Solved for ${points(verdict.cost)}.${more}`),
    ),
    h("p", { class: "why" }, ...withCode(card.why)),
    h("p", { class: "flag" }, "In vLLM: ", h("code", {}, card.vllm_flag)),
  ];
}
