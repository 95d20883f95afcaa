/** The view of the cluster: connects the picture, the filters, the pending pods and the details with each other. */

import { currentFilter, makeFilters } from "../cluster/filters.js";
import { showLegend } from "../cluster/legend.js";
import { Details } from "../cluster/details.js";
import { NodeList } from "../cluster/node_list.js";
import { PendingList } from "../cluster/pending.js";
import { makeTooltip } from "../cluster/tooltip.js";
import { isEmpty } from "../model/filter.js";
import { atMostEvery, byId, setText } from "../parts/dom.js";
import { Scene } from "../drawing/scene.js";
import { Stage } from "../drawing/stage.js";
import { count } from "../model/words.js";

/**
 * @typedef {import("../frame/address.js").Address} Address
 * @typedef {import("../frame/source.js").Source} Source
 * @typedef {import("../model/state.js").Changed} Changed
 * @typedef {import("../model/place.js").Place} Place
 */

const NARROW = 560;

export class ClusterView {
  /** @param {Address} address @param {Source} source */
  constructor(address, source) {
    this.address = address;
    this.source = source;
    this.scene = new Scene(source.cluster);
    this.frame = byId("canvas-frame");
    this.stage = new Stage(/** @type {HTMLCanvasElement} */ (byId("canvas")), this.scene, () => source.now());
    this.nodes = new NodeList(this.scene, { focus: (id) => this.#focus(id), open: (id) => address.go({ node: id, pod: "" }) });
    this.pending = new PendingList((pod) => address.go({ pod, node: "" }));
    this.details = new Details(address, source);
    this.showPending = atMostEvery(() => this.#showPending(), 400);
    this.showNodes = atMostEvery(() => this.nodes.update(), 1000);
    this.#listen();
  }

  #listen() {
    makeFilters(this.address);
    makeTooltip(this.stage, byId("canvas"));
    this.address.onChange((place, before) => this.#placeChanged(place, before));
    new ResizeObserver(() => this.arrange()).observe(this.frame);
    byId("canvas").addEventListener("click", (event) => this.#click(event));
    const calm = matchMedia("(prefers-reduced-motion: reduce)");
    const follow = () => { this.scene.smooth = !calm.matches; };
    calm.addEventListener("change", follow);
    follow();
    this.scene.filter = currentFilter(this.address);
    // Ages grow while nothing else changes.
    setInterval(() => this.#repaint(), 30_000);
    setInterval(() => { this.showPending(); this.scene.tick(); this.stage.wake(); }, 1000);
  }

  /** @param {Changed} changed */
  changed(changed) {
    this.scene.refresh(changed.nodes);
    if (changed.members) this.arrange();
    if (changed.pending) this.showPending();
    this.#showMatches();
    this.showNodes();
    // A hidden window paints no frames: without this the tiles of pods that went would be kept until it is seen again.
    if (document.hidden) this.scene.step(Infinity);
    this.stage.wake();
  }

  /** Places all boxes anew: after nodes came or went, and when the window has another size. */
  arrange() {
    const { clientWidth, clientHeight } = this.frame;
    if (clientWidth === 0) return;
    // A narrow page scrolls in any case: there the boxes stay large enough to read.
    const height = clientWidth < NARROW ? clientHeight * 3 : clientHeight - 6;
    this.scene.arrange(this.address.place.group, this.stage.spaceOf(clientWidth - 2, height));
    this.stage.resize();
    byId("cluster-none").hidden = this.scene.layout.boxes.size > 0;
    setText(byId("cluster-none"), this.source.cluster.known ? "No nodes." : "Waiting for the first picture …");
    this.stage.wake();
  }

  recolour() {
    showLegend();
    this.stage.recolour();
  }

  start() {
    this.#mark();
    this.arrange();
    this.details.show();
  }

  /** @param {Place} place @param {Place} before */
  #placeChanged(place, before) {
    if (place.q !== before.q || place.state !== before.state || place.capacity !== before.capacity) this.scene.look(currentFilter(this.address));
    if (place.group !== before.group || place.view !== before.view) this.arrange();
    this.#mark();
    this.#showMatches();
    this.showPending();
    this.stage.wake();
  }

  #mark() {
    this.stage.chosen = this.address.place.node;
    this.stage.pod = this.address.place.pod;
    this.#repaint();
  }

  #repaint() {
    this.scene.stale = true;
    this.stage.wake();
  }

  /** @param {string} id */
  #focus(id) {
    this.stage.focused = id;
    const box = this.scene.layout.boxes.get(id);
    if (box) this.#scrollTo(box);
    this.#repaint();
  }

  /** @param {import("../model/types.js").Rect} box */
  #scrollTo({ y, h }) {
    const { scrollTop, clientHeight } = this.frame;
    if (y < scrollTop) this.frame.scrollTop = y - 24;
    else if (y + h > scrollTop + clientHeight) this.frame.scrollTop = y + h + 8 - clientHeight;
  }

  /** @param {MouseEvent} event */
  #click(event) {
    const hit = this.stage.at(event.offsetX, event.offsetY);
    if (hit) this.address.go({ node: hit.sprite.node.id, pod: "" });
  }

  #showPending() {
    if (!this.source.cluster.known) return;
    this.pending.show(this.source.cluster.pending, this.source.now(), this.address.place.pod, this.source.cluster.trusted.missing ?? "");
  }

  #showMatches() {
    const filter = currentFilter(this.address);
    byId("clear-filters").hidden = isEmpty(filter);
    if (isEmpty(filter)) return setText(byId("matches"), "");
    let found = 0;
    for (const sprite of this.scene.sprites.values()) if (sprite.match !== "no" && !sprite.leaving) found += 1;
    setText(byId("matches"), `${count(found, "node")} found`);
  }
}
