/** The slider over the recorded time: shows a moment of the past, plays on from it, returns to now. */

import { get } from "../net/api.js";
import { placeMarks, within } from "../model/history.js";
import { clock, duration } from "../model/words.js";
import { write } from "../parts/copy.js";
import { byId, h, setText } from "../parts/dom.js";

/**
 * @typedef {import("../frame/address.js").Address} Address
 * @typedef {import("../frame/source.js").Source} Source
 */

const TICK = 0.1;

export class TimeBar {
  range = { from: 0, to: 0 };
  /** @type {number|undefined} */ #waiting;
  #dragging = false;

  /** @param {Address} address @param {Source} source */
  constructor(address, source) {
    this.address = address;
    this.source = source;
    this.slider = /** @type {HTMLInputElement} */ (byId("slider"));
    this.play = byId("play");
    this.slider.addEventListener("input", () => this.#drag());
    this.play.addEventListener("click", () => this.#toggle());
    byId("back-to-now").addEventListener("click", () => this.#backToNow());
    byId("copy-moment").addEventListener("click", () => this.#copyLink());
    byId("speed").addEventListener("change", () => this.#setSpeed());
    address.onChange((place, before) => { if (place.at !== before.at) this.#follow(place.at); });
    setInterval(() => this.#tick(), TICK * 1000);
  }

  /** Reads how far the record reaches; asked again now and then, since it moves on. */
  async load() {
    try {
      const { from, to, marks } = await get("history");
      this.range = { from, to };
      this.source.extend(to);
      byId("slider-marks").replaceChildren(...placeMarks(marks, this.range).map(mark));
    } catch {
      // Without a record the slider stays where it is; the connection state tells the reason.
    }
    this.show();
  }

  /** Goes to the moment of the address, on the first load of the page. */
  start() {
    this.#follow(this.address.place.at);
  }

  show() {
    const { player, playing } = this.source;
    const at = player ? player.at : Math.ceil(this.range.to);
    this.slider.min = String(Math.floor(this.range.from));
    this.slider.max = String(Math.ceil(this.range.to));
    if (!this.#dragging) this.slider.value = String(at);
    this.slider.setAttribute("aria-valuetext", player ? clock(at) : "now");
    setText(this.play, playing ? "Pause" : "Play");
    setText(byId("moment"), player ? `${clock(at)}, ${duration(Math.max(0, this.range.to - at))} ago` : "now");
    byId("back-to-now").hidden = !player;
    byId("time").dataset.past = String(player !== null);
  }

  /** @param {number|null} at */
  #follow(at) {
    if (at === null) this.source.live();
    else this.source.past(at, Math.max(this.range.to, at));
    this.#setSpeed();
    this.show();
  }

  #tick() {
    const { source } = this;
    if (source.playing && source.player?.ended) this.address.go({ at: null });
    else source.tick(TICK);
  }

  #drag() {
    this.#dragging = true;
    clearTimeout(this.#waiting);
    const at = Number(this.slider.value);
    setText(byId("moment"), clock(at));
    // A slider that is dragged passes many moments; only where it rests is loaded.
    this.#waiting = window.setTimeout(() => {
      this.#dragging = false;
      this.source.playing = false;
      this.address.go({ at: at >= this.range.to - 1 ? null : within(at, this.range.from, this.range.to) });
    }, 180);
  }

  #backToNow() {
    // The slider may just have been let go, and its moment not be loaded yet.
    clearTimeout(this.#waiting);
    this.#dragging = false;
    this.address.go({ at: null });
  }

  #toggle() {
    const { source } = this;
    if (!source.player) this.address.go({ at: Math.max(this.range.from, this.range.to - 600) });
    source.playing = !source.playing;
    if (source.player && !source.playing) this.#keepMoment(source.player.at);
    this.show();
  }

  /** A link to the moment that is seen now, also while it is played and while the picture is live. */
  async #copyLink() {
    const link = new URL(this.address.link({ at: this.source.now() }), location.href).href;
    const button = byId("copy-moment");
    setText(button, (await write(link)) ? "Copied" : "Not allowed: copy the address");
    if (this.source.player) this.#keepMoment(this.source.player.at);
    setTimeout(() => setText(button, "Copy link"), 2000);
  }

  /** @param {number} at so that a link copied now shows what is seen now */
  #keepMoment(at) {
    const search = this.address.link({ at });
    history.replaceState(null, "", search);
    this.address.place = { ...this.address.place, at };
  }

  #setSpeed() {
    if (this.source.player) this.source.player.speed = Number(/** @type {HTMLSelectElement} */ (byId("speed")).value);
  }
}

/** @param {{text: string, at: number, share: number}} item */
function mark({ text, at, share }) {
  const element = h("span", { class: "time-mark", title: `${clock(at)} ${text}` });
  element.style.left = `${share * 100}%`;
  return element;
}
