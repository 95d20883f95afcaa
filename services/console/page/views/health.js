/** Whether the services work, who leads, and whether the picture of the cluster is fresh. */

import { duration } from "../model/words.js";
import { h, setText } from "../parts/dom.js";
import { PolledView } from "../parts/polled_view.js";
import { table } from "../parts/table.js";

/**
 * @typedef {{name: string, ready: boolean, reasons: string[], url: string, leader: string|null, problem: string}} Service
 * @typedef {{name: string, holder: string, renewed: number}} Lease
 * @typedef {{resource: string, sound: boolean, ageSeconds: number}} Watch
 */

export class HealthView extends PolledView {
  mirror = h("p", { class: "facts-row" });
  services = table("Services", ["Service", "State", "Why", "Leader", "Address"], serviceCells);
  leases = table("Leases", ["Lease", "Holder", "Renewed#"], leaseCells);
  noLeases = h("p", { class: "quiet" }, "No Lease exists: leader election is off, and each service leads.");
  watches = table("Watches", ["Resource", "State", "Last heard#"], watchCells);

  /** @param {() => number} now */
  constructor(now) {
    super("health", "Health", "health");
    this.now = now;
  }

  /** @override */
  build() {
    const card = (/** @type {HTMLElement} */ element) => h("section", { class: "card" }, element);
    const leases = h("section", { class: "card" }, this.leases.element, this.noLeases);
    return [this.mirror, card(this.services.element), h("div", { class: "columns" }, leases, card(this.watches.element))];
  }

  /** @override @param {{services: Service[], leases: Lease[], problem: string, mirror: {ok: boolean, reason: string, ageSeconds: number}, watches: Watch[]}} answer */
  show({ services, leases, problem, mirror, watches }) {
    this.noLeases.hidden = leases.length > 0 || problem !== "";
    const words = mirror.ok ? "The mirror of the cluster can be relied on" : `The mirror of the cluster cannot be relied on: ${mirror.reason}`;
    this.mirror.classList.toggle("problem", !mirror.ok);
    setText(this.mirror, `${words} (last heartbeat of the watcher: ${ago(mirror.ageSeconds)})`);
    this.services.rows.show(services, (service) => `${service.name} ${service.url}`);
    this.leases.rows.show(leases.map((lease) => ({ ...lease, age: ago(this.now() - lease.renewed) })), (lease) => lease.name);
    this.watches.rows.show([...watches].sort((a, b) => Number(a.sound) - Number(b.sound)), (watch) => watch.resource);
  }
}

/** @param {number|null} seconds */
const ago = (seconds) => (seconds === null || !Number.isFinite(seconds) ? "never" : seconds < 1 ? "now" : `${duration(seconds)} ago`);

/** @param {boolean} good @param {string} yes @param {string} no */
const verdict = (good, yes, no) => h("span", { class: "badge", "data-state": good ? "ready" : null, "data-kind": good ? null : "bad" }, good ? yes : no);

/** @param {Service} service */
const serviceCells = ({ name, ready, reasons, url, leader, problem }) => [
  name,
  verdict(ready && !problem, "ready", problem ? "no answer" : "not ready"),
  [problem, ...reasons].filter(Boolean).join("; ") || "–",
  leader === null ? "none needed" : leader || "nobody",
  h("code", {}, url),
];

/** @param {Lease & {age: string}} lease */
const leaseCells = ({ name, holder, age }) => [h("code", {}, name), holder || "nobody", age];

/** @param {Watch} watch */
const watchCells = ({ resource, sound, ageSeconds }) => [resource, verdict(sound, "sound", "broken"), ago(ageSeconds)];
