/** Plays the past: says which changes to fetch, and which are due as the played time goes on. */

/** @typedef {import("./types.js").Change} Change */

// The server gives at most this much at once.
const MOST_SECONDS = 60;
const AHEAD = 10;

export class Player {
  /** @type {Change[]} fetched and not yet due, oldest first */ waiting = [];

  /** @param {number} at the moment shown first @param {number} end where playing stops */
  constructor(at, end) {
    this.at = at;
    this.end = end;
    this.fetched = at;
    this.speed = 1;
  }

  get ended() {
    return this.at >= this.end;
  }

  /** @returns {{from: number, to: number}|null} what to fetch now, if anything */
  wanted() {
    if (this.fetched >= this.end || this.fetched - this.at > AHEAD * this.speed) return null;
    return { from: this.fetched, to: Math.min(this.end, this.fetched + MOST_SECONDS) };
  }

  /** @param {number} to end of the time that was fetched @param {Change[]} changes */
  add(to, changes) {
    const fresh = changes.filter((change) => change.at > this.at && change.at <= to);
    this.waiting = [...this.waiting, ...fresh].sort((a, b) => a.at - b.at);
    this.fetched = Math.max(this.fetched, to);
  }

  /** @param {number} seconds of the watch, not of the past @returns {Change[]} that are due now, oldest first */
  advance(seconds) {
    // Never past what was fetched: the picture waits for the changes instead of leaving some out.
    this.at = Math.min(this.at + seconds * this.speed, this.fetched, this.end);
    let due = 0;
    while (due < this.waiting.length && /** @type {Change} */ (this.waiting[due]).at <= this.at) due += 1;
    return this.waiting.splice(0, due);
  }
}

/** @param {number} value @param {number} from @param {number} to */
export const within = (value, from, to) => Math.min(to, Math.max(from, value));

/** @param {{at: number, text: string}[]} marks @param {{from: number, to: number}} range @returns {{at: number, text: string, share: number}[]} share: 0 to 1 */
export function placeMarks(marks, { from, to }) {
  if (to <= from) return [];
  return marks.filter((mark) => mark.at >= from && mark.at <= to).map((mark) => ({ ...mark, share: (mark.at - from) / (to - from) }));
}
