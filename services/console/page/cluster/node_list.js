/**
 * The nodes for keyboards and screen readers: a list box in front of the canvas, whose active option is the box with the
 * focus ring. Only options near the active one exist, since a thousand would slow the page down.
 */

import { count, hourly, nodeName, percent } from "../model/words.js";
import { byId, h } from "../parts/dom.js";

/**
 * @typedef {import("../drawing/scene.js").Scene} Scene
 * @typedef {import("../drawing/sprite.js").Sprite} Sprite
 * @typedef {{focus: (id: string) => void, open: (id: string) => void}} Actions
 */

const NEAR = 5;

export class NodeList {
  active = "";

  /** @param {Scene} scene @param {Actions} actions */
  constructor(scene, actions) {
    this.scene = scene;
    this.actions = actions;
    this.list = byId("node-list");
    this.list.addEventListener("keydown", (event) => this.#key(event));
    this.list.addEventListener("focus", () => this.#move(this.active));
    this.list.addEventListener("blur", () => actions.focus(""));
  }

  /** Shows the options anew, after nodes came or went. */
  update() {
    const ids = [...this.scene.layout.boxes.keys()];
    this.list.hidden = ids.length === 0;
    if (!this.scene.layout.boxes.has(this.active)) this.active = ids[0] ?? "";
    const here = Math.max(0, ids.indexOf(this.active));
    const near = ids.slice(Math.max(0, here - NEAR), here + NEAR + 1);
    this.list.replaceChildren(...near.map((id) => this.#option(id, ids)));
    this.list.setAttribute("aria-activedescendant", `option-${here}`);
  }

  /** @param {string} id @param {string[]} ids */
  #option(id, ids) {
    const index = ids.indexOf(id);
    const sprite = this.scene.sprites.get(id);
    const attributes = { role: "option", id: `option-${index}`, "aria-posinset": index + 1, "aria-setsize": ids.length, "aria-selected": String(id === this.active) };
    return h("div", attributes, sprite ? describe(sprite) : id);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const ids = [...this.scene.layout.boxes.keys()];
    if (event.key === "Enter" || event.key === " ") this.actions.open(this.active);
    else {
      const next = this.#next(event.key, ids);
      if (next === undefined) return;
      this.#move(next);
    }
    event.preventDefault();
  }

  /** @param {string} key @param {string[]} ids @returns {string|undefined} */
  #next(key, ids) {
    const here = ids.indexOf(this.active);
    if (key === "ArrowRight") return ids[Math.min(ids.length - 1, here + 1)];
    if (key === "ArrowLeft") return ids[Math.max(0, here - 1)];
    if (key === "Home") return ids[0];
    if (key === "End") return ids.at(-1);
    if (key === "ArrowDown") return this.#beside(1);
    if (key === "ArrowUp") return this.#beside(-1);
    return undefined;
  }

  /** @param {1|-1} direction down or up @returns {string} the nearest box there */
  #beside(direction) {
    const from = this.scene.layout.boxes.get(this.active);
    if (!from) return this.active;
    let best = this.active;
    let least = Infinity;
    for (const [id, box] of this.scene.layout.boxes) {
      const down = (box.y - from.y) * direction;
      if (down < 4) continue;
      const far = down * 3 + Math.abs(box.x + box.w / 2 - from.x - from.w / 2);
      if (far < least) [best, least] = [id, far];
    }
    return best;
  }

  /** @param {string} id */
  #move(id) {
    this.active = id;
    this.update();
    this.actions.focus(this.active);
  }
}

/** @param {Sprite} sprite @returns {string} */
export function describe({ node, used }) {
  const words = [nodeName(node), node.type, node.zone, node.capacityType, node.price === null ? "" : hourly(node.price), node.state, ...node.marks];
  return [...words, count(used.pods, "pod"), `cpu ${percent(used.cpu, node.cpu)}`, `memory ${percent(used.memory, node.memory)}`].filter(Boolean).join(", ");
}
