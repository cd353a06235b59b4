/**
 * The address bar. The query holds the lab and what differs from its defaults, nothing else; the part after # holds
 * what is looked at (moment, request), the mission being played, or a hand-over of progress.
 */

/** @typedef {import("./types.js").Changes} Changes */
/** @typedef {import("./types.js").Labs} Labs */

/**
 * @param {Labs} labs
 * @param {string} search
 * @returns {{lab: string, changes: Changes, problem: string|null}}
 */
export function readQuery(labs, search) {
  const params = new URLSearchParams(search);
  const names = Object.keys(labs.labs);
  const asked = params.get("lab");
  const lab = asked !== null && names.includes(asked) ? asked : (names[0] ?? "");
  const twice = [...params.keys()].find((name) => params.getAll(name).length > 1);
  params.delete("lab");
  const defaults = labs.labs[lab]?.defaults ?? {};
  /** @type {Changes} */
  const changes = {};
  for (const [name, text] of params) if (defaults[name] !== text) changes[name] = text;
  const unknown = asked !== null && asked !== lab;
  if (unknown)
    return { lab, changes: {}, problem: `This link asks for a lab “${asked}”. There are: ${names.join(", ")}.` };
  return { lab, changes, problem: twice === undefined ? null : `This link gives “${twice}” twice.` };
}

/**
 * The relative address of a setup.
 * @param {Labs} labs
 * @param {string} lab
 * @param {Changes} changes
 * @param {string|null} mission
 */
export function addressOf(labs, lab, changes, mission) {
  const params = new URLSearchParams();
  if (lab !== Object.keys(labs.labs)[0]) params.set("lab", lab);
  for (const name of Object.keys(changes).sort()) params.set(name, changes[name] ?? "");
  const query = params.toString();
  return (query ? `?${query}` : location.pathname) + (mission === null ? "" : `#mission=${mission}`);
}

/**
 * @param {string} hash
 * @returns {{t: number|null, request: number|null, mission: string|null, pin: string|null,
 *   progress: string|null}}
 */
export function readHash(hash) {
  const params = new URLSearchParams(hash.slice(1));
  return {
    t: decimal(params.get("t")),
    request: decimal(params.get("request")),
    mission: params.get("mission"),
    pin: params.get("pin"),
    progress: params.get("progress"),
  };
}

/** @param {string|null} text */
function decimal(text) {
  return text !== null && /^\d{1,9}(\.\d{1,3})?$/.test(text) ? Number(text) : null;
}
