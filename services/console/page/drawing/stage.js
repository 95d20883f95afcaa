/** The canvas itself: its size, its frames, and what lies under a point. */

import { HEADING } from "../model/layout.js";
import { paintBox } from "./painter.js";
import { readPalette } from "./palette.js";
import { wordsOfSums } from "../model/grouping.js";
import { fit, fitWords, FONTS, widthOf } from "./text.js";

/**
 * @typedef {import("./scene.js").Scene} Scene
 * @typedef {import("./sprite.js").Sprite} Sprite
 */

// Larger canvases fail in some browsers: then the picture is drawn with fewer points.
const MOST_POINTS = 32_000_000;

// Seconds between two headings of a group whose pods change.
const HEADINGS = 1;

// Seconds a frame: two limits, so that motion does not come and go all the time.
const SLOW = 0.027;
const QUICK = 0.019;

export class Stage {
  /** painted frames, and their rate while something moved */ frames = { count: 0, framesPerSecond: 0 };
  focused = "";
  chosen = "";
  pod = "";
  #before = 0;
  #asked = false;
  #width = 0;
  #headed = 0;
  /** the last frame painted everything */ #whole = false;
  /** seconds that such a frame takes, on average */ #cost = 0;

  /** @param {HTMLCanvasElement} canvas @param {Scene} scene @param {() => number} now seconds, for ages */
  constructor(canvas, scene, now) {
    this.canvas = canvas;
    this.scene = scene;
    this.now = now;
    this.context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    this.palette = readPalette(this.context);
  }

  /** Reads the colours again, after the theme changed. */
  recolour() {
    this.palette = readPalette(this.context);
    this.scene.stale = true;
    this.wake();
  }

  /** @param {number} width @param {number} height of the place in which the canvas stands @returns {import("../model/layout.js").Space} */
  spaceOf(width, height) {
    this.#width = width;
    const label = (/** @type {string} */ key, /** @type {number} */ count) => {
      this.context.font = FONTS.heading;
      return Math.min(width - 20, widthOf(this.context, `${key}  ${count}`) + 4);
    };
    return { width, height, label };
  }

  /** Gives the canvas the size of the layout. Resizing empties it, so everything is painted again. */
  resize() {
    const width = this.#width;
    const height = Math.max(1, Math.ceil(this.scene.layout.height));
    const scale = Math.min(window.devicePixelRatio || 1, Math.sqrt(MOST_POINTS / (width * height)));
    const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
    if (this.canvas.width === w && this.canvas.height === h) return;
    this.canvas.width = w;
    this.canvas.height = h;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
    this.scene.stale = true;
  }

  /** Asks for a frame; while nothing changes no frame is painted. */
  wake() {
    if (this.#asked) return;
    this.#asked = true;
    requestAnimationFrame((at) => this.#frame(at / 1000));
  }

  /** @param {number} at seconds */
  #frame(at) {
    this.#asked = false;
    const seconds = at - this.#before;
    this.#before = at;
    // After a rest the time since the last frame says nothing about speed, nor about how far things move.
    const resting = seconds > 0.25;
    if (!resting) this.#count(seconds);
    if (!resting && this.#whole) this.#judge(seconds);
    if (!this.scene.step(resting ? 1 / 60 : seconds)) return;
    this.#paint();
    this.frames.count += 1;
    this.wake();
  }

  /** @param {number} seconds */
  #count(seconds) {
    const rate = 1 / Math.max(seconds, 0.001);
    this.frames.framesPerSecond = this.frames.framesPerSecond ? this.frames.framesPerSecond * 0.95 + rate * 0.05 : rate;
  }

  /** @param {number} seconds that the whole picture took; when that is too long, boxes no longer move through many pictures */
  #judge(seconds) {
    this.#cost += (seconds - this.#cost) * 0.1;
    if (this.#cost > SLOW) this.scene.hurried = true;
    if (this.#cost < QUICK) this.scene.hurried = false;
  }

  #paint() {
    const { scene, context } = this;
    this.#whole = scene.stale;
    const look = { palette: this.palette, now: this.now(), focused: this.focused, chosen: this.chosen, pod: this.pod };
    if (scene.stale) this.#paintBlocks();
    else if (look.now - this.#headed > HEADINGS) this.#paintHeadings();
    for (const id of scene.stale ? scene.sprites.keys() : scene.dirty) {
      const sprite = scene.sprites.get(id);
      if (!sprite) continue;
      if (!scene.stale) this.#wipe(sprite);
      paintBox(context, sprite, look);
    }
    scene.stale = false;
    scene.dirty.clear();
  }

  /** @param {Sprite} sprite */
  #wipe({ now: { x, y, w, h } }) {
    this.context.fillStyle = this.palette.colours.surface;
    this.context.fillRect(x, y, w, h);
  }

  #paintBlocks() {
    const { context, palette: { colours } } = this;
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    for (const block of this.scene.layout.blocks) {
      context.beginPath();
      context.roundRect(block.x, block.y, block.w, block.h, 8);
      context.fillStyle = colours.surface;
      context.fill();
    }
    this.#paintHeadings();
  }

  #paintHeadings() {
    this.#headed = this.now();
    const sums = this.scene.sums();
    for (const block of this.scene.layout.blocks) this.#paintHeading(block, sums.get(block.key));
  }

  /** @param {import("../model/layout.js").Block} block @param {import("../model/grouping.js").Sums|undefined} sums */
  #paintHeading({ x, y, w, key, count }, sums) {
    const { context, palette: { colours } } = this;
    context.fillStyle = colours.surface;
    context.fillRect(x + 8, y + 2, w - 16, HEADING - 3);
    context.font = FONTS.heading;
    context.textBaseline = "middle";
    context.fillStyle = colours.text;
    const number = `  ${count}`;
    const name = fit(context, key, w - 16 - widthOf(context, number));
    context.fillText(name, x + 9, y + HEADING / 2 + 1);
    context.fillStyle = colours.muted;
    context.fillText(number, x + 9 + widthOf(context, name), y + HEADING / 2 + 1);
    const used = 9 + widthOf(context, name) + widthOf(context, number) + 12;
    context.font = FONTS.sums;
    context.fillText(fitWords(context, sums ? wordsOfSums(sums) : [], w - used - 10), x + used, y + HEADING / 2 + 1);
  }

  /** @param {number} x @param {number} y on the canvas @returns {{sprite: Sprite, pod: import("../model/types.js").Pod|null}|null} */
  at(x, y) {
    const within = (/** @type {import("../model/types.js").Rect} */ r, px = x, py = y) => px >= r.x && px < r.x + r.w && py >= r.y && py < r.y + r.h;
    for (const sprite of this.scene.sprites.values()) {
      if (sprite.leaving || !within(sprite.now)) continue;
      for (const tile of sprite.tiles.values()) {
        if (!tile.leaving && within(tile.now, x - sprite.now.x, y - sprite.now.y)) return { sprite, pod: tile.pod };
      }
      return { sprite, pod: null };
    }
    return null;
  }
}
