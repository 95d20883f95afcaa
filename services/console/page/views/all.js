/** The views beside the cluster: each polls only while it is shown. */

import { CostView } from "./cost.js";
import { DecisionsView } from "./decisions.js";
import { HealthView } from "./health.js";
import { InterruptionsView } from "./interruptions.js";
import { LedgersView } from "./ledgers.js";
import { QueuesView } from "./queues.js";

/** @param {import("../frame/address.js").Address} address @param {() => number} now @returns {{recolour: () => void}} */
export function makeViews(address, now) {
  const cost = new CostView();
  const views = [new DecisionsView(address), cost, new LedgersView(), new InterruptionsView(address, now), new QueuesView(), new HealthView(now)];
  const follow = (/** @type {string} */ shown) => {
    for (const view of views) if (view.name === shown) view.start(); else view.stop();
  };
  address.onChange((place, before) => { if (place.view !== before.view) follow(place.view); });
  follow(address.place.view);
  return { recolour: () => cost.recolour() };
}
