/** What the address of the page holds, so that a link shows the same to somebody else. */

export const VIEWS = /** @type {const} */ (["cluster", "decisions", "cost", "ledgers", "interruptions", "queues", "health"]);
const GROUPINGS = /** @type {const} */ (["pool", "zone", "type"]);

/**
 * @typedef {object} Place
 * @property {typeof VIEWS[number]} view
 * @property {typeof GROUPINGS[number]} group
 * @property {string} q text to search
 * @property {string} state state or mark of a node
 * @property {string} capacity
 * @property {string} node id whose details are open
 * @property {string} pod name whose details are open
 * @property {number|null} at moment in the past
 */

/** @type {Readonly<Place>} */
export const NOWHERE = { view: "cluster", group: "pool", q: "", state: "", capacity: "", node: "", pod: "", at: null };

/** @template {string} T @param {readonly T[]} known @param {string|null} word @returns {T} */
const oneOf = (known, word) => known.find((item) => item === word) ?? /** @type {T} */ (known[0]);

/** @param {string} search such as "?view=cost&at=1764000000" @returns {Place} */
export function parsePlace(search) {
  const query = new URLSearchParams(search);
  const at = Number(query.get("at"));
  const text = (/** @type {string} */ name) => query.get(name) ?? "";
  return {
    view: oneOf(VIEWS, query.get("view")),
    group: oneOf(GROUPINGS, query.get("group")),
    q: text("q"), state: text("state"), capacity: text("capacity"), node: text("node"), pod: text("pod"),
    at: Number.isFinite(at) && at > 0 ? at : null,
  };
}

/** @param {Place} place @returns {string} only what differs from an empty address */
export function formatPlace(place) {
  const query = new URLSearchParams();
  for (const name of /** @type {(keyof Place)[]} */ (Object.keys(NOWHERE))) {
    const value = place[name];
    if (value !== NOWHERE[name] && value !== null) query.set(name, typeof value === "number" ? value.toFixed(1) : value);
  }
  const text = query.toString();
  return text ? `?${text}` : "?";
}
