/** The details of a pod as elements: for a pending one the verdict and the smallest change that places it. */

import { causeOf, duration, requestsOf, waitsFor } from "../model/words.js";
import { copyable } from "../parts/copy.js";
import { h } from "../parts/dom.js";
import { eventList, facts, labelList, section } from "./sections.js";

/** @param {any} details answer of /api/pod @param {number} now @param {import("./node_details.js").Choose} choose @returns {HTMLElement[]} */
export function podDetails(details, now, choose) {
  const { pod } = details;
  return [
    h("p", { class: "lead" }, pod.name),
    h("p", { class: "badges" }, h("span", { class: "badge", "data-state": pod.state }, pod.state),
      pod.state === "pending" ? h("span", { class: "quiet" }, ` ${waitsFor(pod)}`) : null),
    ...(details.problem ? [h("p", { class: "problem" }, details.problem)] : []),
    section("Verdict", details.verdict ? verdict(details.verdict) : []),
    section("Smallest change", details.change ? change(details.change) : []),
    facts([
      ["Requests", requestsOf(pod)], ["For", duration(now - pod.since)],
      ["Owner", pod.owner], ["Kind", pod.daemon ? "pod of a DaemonSet" : ""],
    ]),
    section("Node", pod.node ? [h("button", { type: "button", class: "plain", onclick: () => choose.node(pod.node) }, pod.node)] : []),
    section("Events", eventList(details.events ?? [])),
    section("Labels", labelList(details.labels)),
  ];
}

/** @param {string} text @returns {HTMLElement[]} what is wrong first, then what was looked for */
const verdict = (text) => [h("p", { class: "verdict" }, causeOf(text)), ...(causeOf(text) === text ? [] : [h("p", { class: "quiet" }, text)])];

/** @param {{text: string, commands: string[]}} change @returns {HTMLElement[]} */
const change = ({ text, commands }) => [h("p", {}, text), ...commands.map(copyable)];
