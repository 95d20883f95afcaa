/** Starts the page: one cluster, one address, one source of changes, and the views that show them. */

import { TimeBar } from "./cluster/time.js";
import { Address } from "./frame/address.js";
import { showHeader } from "./frame/header.js";
import { Source } from "./frame/source.js";
import { Cluster } from "./model/state.js";
import { atMostEvery, byId } from "./parts/dom.js";
import { makeSignIn } from "./parts/signin.js";
import { makeTabs } from "./parts/tabs.js";
import { themeSwitch } from "./parts/theme.js";
import { makeViews } from "./views/all.js";
import { ClusterView } from "./views/cluster.js";

const cluster = new Cluster();
const address = new Address();
const source = new Source(cluster, {
  changed: (changed) => view.changed(changed),
  status: () => status(),
});
const view = new ClusterView(address, source);
const time = new TimeBar(address, source);
const status = atMostEvery(() => { showHeader(cluster, source); time.show(); }, 250);

// Counters for tests of the page; they cannot be changed through it.
const state = { get nodes() { return cluster.nodes.size; }, get pods() { return cluster.pods.size; }, get pending() { return cluster.pending.size; } };
const frames = { get count() { return view.stage.frames.count; }, get framesPerSecond() { return view.stage.frames.framesPerSecond; } };
Object.defineProperty(window, "dovetail", { value: Object.freeze({ state, frames }) });

const others = makeViews(address, () => source.now());
byId("theme").replaceWith(themeSwitch(() => { view.recolour(); others.recolour(); }));
makeSignIn(() => location.reload());
makeTabs(address);
view.start();
// The live picture does not wait for the record; a moment of the past needs to know where the record ends.
const shared = address.place.at !== null;
if (!shared) time.start();
time.load().then(() => { if (shared) time.start(); });
setInterval(() => time.load(), 10_000);
// An age grows without a message.
setInterval(status, 1000);
