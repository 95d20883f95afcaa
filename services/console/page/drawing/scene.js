/**
 * All that is on the canvas. Changes of the cluster set goals; each frame moves the sprites nearer to them and says which boxes
 * must be painted again. Only these are painted: with 20,000 pods a whole picture per frame would cost too much.
 */

import { isEmpty, matchingPods, matchNode } from "../model/filter.js";
import { groupNodes, sumsOf } from "../model/grouping.js";
import { layoutGroups } from "../model/layout.js";
import { newSprite, rescale, retile, stepBox, stepTiles } from "./sprite.js";

/**
 * @typedef {import("./sprite.js").Sprite} Sprite
 * @typedef {import("../model/state.js").Cluster} Cluster
 * @typedef {import("../model/state.js").Changed} Changed
 * @typedef {import("../model/filter.js").Filter} Filter
 * @typedef {import("../model/layout.js").Layout} Layout
 */

const SECONDS_TO_NEAR = 0.1;

export class Scene {
  /** @type {Map<string, Sprite>} */ sprites = new Map();
  /** @type {Layout} */ layout = { boxes: new Map(), blocks: [], height: 0, unit: 0 };
  /** @type {Set<string>} boxes to paint again */ dirty = new Set();
  /** @type {Set<string>} boxes whose tiles move */ stirring = new Set();
  /** @type {Set<string>} boxes that move themselves */ travelling = new Set();
  /** everything must be painted again */ stale = true;
  /** motion is wanted; false under prefers-reduced-motion */ smooth = true;
  /** boxes jump instead of moving: set while whole pictures take too long to paint */ hurried = false;
  /** @type {import("../model/grouping.js").Grouping} */ by = "pool";
  /** @type {Filter} */ filter = { words: [], state: "", capacity: "" };

  /** @param {Cluster} cluster */
  constructor(cluster) {
    this.cluster = cluster;
  }

  /** @param {import("../model/grouping.js").Grouping} by @param {import("../model/layout.js").Space} space */
  arrange(by, space) {
    this.by = by;
    this.layout = layoutGroups(groupNodes(this.cluster.nodes.values(), by), space);
    for (const [id, rect] of this.layout.boxes) this.#place(id, rect);
    for (const [id, sprite] of this.sprites) if (!this.layout.boxes.has(id)) this.#dismiss(id, sprite);
    this.stale = true;
  }

  /** What the groups cost and how full they are, by key. */
  sums() {
    return sumsOf(this.cluster.nodes.values(), this.by, (id) => this.cluster.usageOf(id));
  }

  /** Boxes that count down are painted again. */
  tick() {
    for (const [id, { node }] of this.sprites) if (node.deadline !== null) this.dirty.add(id);
  }

  /** @param {Iterable<string>} ids nodes that changed, or whose pods did */
  refresh(ids) {
    for (const id of ids) {
      const sprite = this.sprites.get(id);
      const node = this.cluster.nodes.get(id);
      if (!sprite || !node) continue;
      sprite.node = node;
      this.#match(sprite);
      retile(sprite, this.cluster.usageOf(id));
      this.stirring.add(id);
    }
  }

  /** @param {Filter} filter */
  look(filter) {
    this.filter = filter;
    for (const sprite of this.sprites.values()) this.#match(sprite);
    this.stale = true;
  }

  /** @param {number} seconds since the frame before @returns {boolean} whether there is something to paint */
  step(seconds) {
    const part = this.smooth ? 1 - Math.exp(-seconds / SECONDS_TO_NEAR) : 1;
    if (this.travelling.size > 0) this.stale = true;
    for (const id of this.travelling) this.#travel(id, this.hurried ? 1 : part);
    for (const id of this.stirring) this.#stir(id, part);
    return this.stale || this.dirty.size > 0;
  }

  /** @param {string} id @param {number} part */
  #travel(id, part) {
    const sprite = this.sprites.get(id);
    if (sprite && stepBox(sprite, part)) return;
    this.travelling.delete(id);
    if (sprite?.leaving) this.sprites.delete(id);
  }

  /** @param {string} id @param {number} part */
  #stir(id, part) {
    const sprite = this.sprites.get(id);
    if (!sprite || !stepTiles(sprite, part)) this.stirring.delete(id);
    this.dirty.add(id);
  }

  /** @param {string} id @param {import("../model/types.js").Rect} rect */
  #place(id, rect) {
    const node = /** @type {import("../model/types.js").ClusterNode} */ (this.cluster.nodes.get(id));
    const sprite = this.sprites.get(id) ?? newSprite(node, rect);
    this.sprites.set(id, sprite);
    const resized = sprite.to.w !== rect.w || sprite.to.h !== rect.h || sprite.shown === 0;
    if (resized) rescale(sprite, rect);
    Object.assign(sprite, { to: rect, leaving: false });
    this.travelling.add(id);
    if (resized) this.refresh([id]);
  }

  /** @param {string} id @param {Sprite} sprite */
  #dismiss(id, sprite) {
    sprite.leaving = true;
    this.travelling.add(id);
  }

  /** @param {Sprite} sprite */
  #match(sprite) {
    const pods = this.cluster.usageOf(sprite.node.id).pods;
    sprite.match = isEmpty(this.filter) ? "node" : matchNode(this.filter, sprite.node, pods.values());
    sprite.found = sprite.match === "pods" ? matchingPods(this.filter, sprite.node, [...pods.values()]) : null;
  }
}
