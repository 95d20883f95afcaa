/** The streams between the services: how far their readers are behind, and messages that nobody could handle. */

import { clock, duration } from "../model/words.js";
import { copyable } from "../parts/copy.js";
import { h } from "../parts/dom.js";
import { Keyed } from "../parts/keyed.js";
import { PolledView } from "../parts/polled_view.js";
import { table } from "../parts/table.js";

/**
 * @typedef {{name: string, waiting: number, waitingMore: boolean, pending: number, oldestSeconds: number|null, consumers: number}} Group
 * @typedef {{stream: string, length: number, delayed: number, dead: number, groups: Group[]}} Queue
 * @typedef {{id: string, stream: string, at: number, error: string, body: string, replay: string}} DeadLetter
 * @typedef {{queue: Omit<Queue, "groups">, group: Group|null}} Row
 */

const HEADS = ["Stream", "Group", "Waiting#", "In work#", "Oldest#", "Consumers#", "Length#", "Delayed#", "Dead#"];

export class QueuesView extends PolledView {
  queues = table("Streams and their readers", HEADS, cells);
  list = h("ol", { class: "cards" });
  none = h("p", { class: "quiet" }, "No dead letters.");
  letters = new Keyed(this.list, letter);

  constructor() {
    super("queues", "Queues", "queues");
  }

  /** @override */
  build() {
    return [h("section", { class: "card" }, this.queues.element), h("h2", {}, "Dead letters"), this.none, this.list];
  }

  /** @override @param {{queues: Queue[], deadLetters: DeadLetter[], problem: string}} answer */
  show({ queues, deadLetters, problem }) {
    this.queues.rows.show(queues.flatMap(rowsOf), ({ queue, group }) => `${queue.stream} ${group?.name ?? ""}`);
    this.none.hidden = deadLetters.length > 0 || problem !== "";
    this.letters.show(deadLetters, ({ stream, id }) => `${stream} ${id}`);
  }
}

/** @param {Queue} queue @returns {Row[]} */
function rowsOf({ groups, ...queue }) {
  return groups.length ? groups.map((group) => ({ queue, group })) : [{ queue, group: null }];
}

/** @param {Row} row */
function cells({ queue, group }) {
  const oldest = group?.oldestSeconds;
  const waiting = group ? `${group.waiting}${group.waitingMore ? "+" : ""}` : "–";
  return [queue.stream, group?.name ?? "none", waiting, group?.pending ?? "–", oldest === null || oldest === undefined ? "–" : duration(oldest),
    group?.consumers ?? "–", queue.length, queue.delayed, queue.dead ? h("strong", { class: "bad" }, queue.dead) : 0];
}

/** @param {DeadLetter} item */
function letter({ id, stream, at, error, body, replay }) {
  return h("li", { class: "card" },
    h("div", { class: "card-head" }, h("strong", {}, stream), h("code", {}, id), h("time", { class: "quiet" }, clock(at))),
    h("p", { class: "problem" }, error),
    h("details", {}, h("summary", {}, "Body"), h("pre", { class: "body", tabindex: "0" }, body)),
    copyable(replay));
}
