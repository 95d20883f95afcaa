/** The head of the page: what cluster this is, its sums, and whether the picture can be relied on. */

import { hourly, oldness } from "../model/words.js";
import { byId, setText } from "../parts/dom.js";

/**
 * @typedef {import("../model/state.js").Cluster} Cluster
 * @typedef {import("./source.js").Source} Source
 */

/** @param {Cluster} cluster @param {Source} source */
export function showHeader(cluster, source) {
  setText(byId("cluster-name"), cluster.name || "…");
  const number = (/** @type {Map<string, unknown>} */ map) => (cluster.known ? map.size.toLocaleString("en-US") : "–");
  setText(byId("node-count"), number(cluster.nodes));
  setText(byId("pod-count"), number(cluster.pods));
  setText(byId("pending-count"), number(cluster.pending));
  byId("pending-fact").dataset.some = String(cluster.pending.size > 0);
  setText(byId("price"), cluster.known ? hourly(cluster.price) : "–");
  document.title = `${cluster.pending.size ? `(${cluster.pending.size}) ` : ""}${cluster.name || "Dovetail"} – Dovetail`;
  showConnection(source);
  showAge(cluster, source);
  showTrust(cluster, source);
}

/** @param {Source} source */
function showConnection(source) {
  const element = byId("connection");
  const { kind, text } = connectionOf(source);
  element.dataset.kind = kind;
  setText(element, text);
}

/** @param {Source} source @returns {{kind: string, text: string}} */
function connectionOf(source) {
  if (source.player) return { kind: "past", text: source.playing ? "playing the past" : "showing the past" };
  const { state } = source.stream;
  if (state === "old") return { kind: "old", text: "old picture" };
  return { kind: state, text: state };
}

/** No live region: a text that changes each second would be read out each second. @param {Cluster} cluster @param {Source} source */
function showAge(cluster, source) {
  const element = byId("data-age");
  const { ok, heard } = cluster.trusted;
  element.hidden = source.player !== null || !cluster.known || (source.stream.state === "live" && ok && !heard);
  setText(element, element.hidden ? "" : `data is ${oldness(cluster.asOf, source.now())}`);
}

/** @param {Cluster} cluster @param {Source} source */
function showTrust(cluster, source) {
  const banner = byId("banner");
  const text = bannerText(cluster, source);
  setText(banner, text);
  banner.hidden = text === "";
}

/** @param {Cluster} cluster @param {Source} source @returns {string} "" when nothing is wrong */
function bannerText(cluster, source) {
  if (source.problem) return `The moment cannot be shown: ${source.problem}`;
  if (cluster.trusted.ok) return "";
  return `Do not rely on this picture: ${cluster.trusted.reason || "the mirror of the cluster is not complete"}`;
}
