/** Asks one endpoint again and again, but only while its view is shown and the window can be seen. */

import { get, wordsOf } from "../net/api.js";

const SECONDS = 3;

export class Poller {
  /** @type {number|undefined} */ #timer;
  #turn = 0;

  /** @param {string} path @param {(answer: any) => void} show @param {(problem: string) => void} fail */
  constructor(path, show, fail) {
    this.path = path;
    this.show = show;
    this.fail = fail;
  }

  start() {
    this.stop();
    this.#ask((this.#turn += 1));
  }

  stop() {
    clearTimeout(this.#timer);
    this.#turn += 1;
  }

  /** @param {number} turn an answer that comes after `stop` is dropped */
  async #ask(turn) {
    try {
      const answer = document.hidden ? null : await get(this.path);
      if (turn === this.#turn && answer) this.show(answer);
    } catch (error) {
      if (turn === this.#turn) this.fail(wordsOf(error));
    }
    if (turn === this.#turn) this.#timer = window.setTimeout(() => this.#ask(turn), SECONDS * 1000);
  }
}
