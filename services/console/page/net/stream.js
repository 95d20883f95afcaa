/** The live stream of the server. Connects again by itself, and says when the picture is old. */

import { get, Unauthorized } from "./api.js";

/**
 * @typedef {import("../model/types.js").Snapshot} Snapshot
 * @typedef {import("../model/types.js").Change} Change
 * @typedef {import("../model/types.js").Trusted} Trusted
 * @typedef {object} Listener
 * @property {(snapshot: Snapshot) => void} snapshot
 * @property {(change: Change) => void} change
 * @property {(beat: {at: number, trusted: Trusted}) => void} beat
 * @property {() => void} connection called when `state` changed
 */

const SILENT_SECONDS = 15;
const MOST_WAIT = 15_000;

export class Stream {
  /** @type {"connecting"|"live"|"reconnecting"|"old"} */ state = "connecting";
  /** @type {EventSource|null} */ #source = null;
  #heard = 0;
  #wait = 500;
  /** @type {number|undefined} */ #timer;

  /** @param {Listener} listener */
  constructor(listener) {
    this.listener = listener;
    setInterval(() => this.#watch(), 1000);
  }

  start() {
    this.stop();
    const source = new EventSource("api/stream");
    this.#source = source;
    this.#hear(source, "snapshot", (data) => this.listener.snapshot(data));
    this.#hear(source, "change", (data) => this.listener.change(data));
    this.#hear(source, "beat", (data) => this.listener.beat(data));
    source.onerror = () => this.#failed(source);
  }

  stop() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
  }

  /** @param {EventSource} source @param {string} name @param {(data: any) => void} handle */
  #hear(source, name, handle) {
    source.addEventListener(name, (event) => {
      this.#heard = Date.now();
      this.#wait = 500;
      handle(JSON.parse(/** @type {MessageEvent} */ (event).data));
      this.#say("live");
    });
  }

  /** @param {EventSource} source */
  #failed(source) {
    if (source !== this.#source) return;
    if (this.state !== "old") this.#say("reconnecting");
    if (source.readyState !== EventSource.CLOSED) return;
    // The browser gives up after an answer such as 401 or 503 and does not say which: a small request tells.
    get("history").then(() => this.#again(source), (error) => {
      // Without the token each further try would fail too: the page starts again after the sign-in.
      if (!(error instanceof Unauthorized)) this.#again(source);
    });
  }

  /** @param {EventSource} source */
  #again(source) {
    if (source !== this.#source) return;
    this.#timer = window.setTimeout(() => this.start(), this.#wait);
    this.#wait = Math.min(MOST_WAIT, this.#wait * 2);
  }

  #watch() {
    if (this.#source && this.#heard && Date.now() - this.#heard > SILENT_SECONDS * 1000) this.#say("old");
  }

  /** @param {Stream["state"]} state */
  #say(state) {
    if (this.state === state) return;
    this.state = state;
    this.listener.connection();
  }
}
