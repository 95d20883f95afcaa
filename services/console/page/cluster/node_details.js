/** The details of a node as elements. */

import { bytes, clock, cores, count, duration, hourly, nodeName, percent, requestsOf } from "../model/words.js";
import { h } from "../parts/dom.js";
import { eventList, facts, labelList, meter, section } from "./sections.js";

/**
 * @typedef {import("../model/types.js").Pod} Pod
 * @typedef {{pod: (name: string) => void, node: (id: string) => void, moment: (at: number) => void}} Choose
 */

const FIRST_PODS = 8;

/** @param {any} details answer of /api/node @param {number} now @param {Choose} choose @returns {HTMLElement[]} */
export function nodeDetails(details, now, choose) {
  const { node } = details;
  // Parts that the server could not read are absent; `problem` says why.
  const pods = details.pods ?? [];
  return [
    h("p", { class: "lead" }, nodeName(node)),
    badges(node),
    ...problem(details.problem),
    facts(nodeFacts(node, now)),
    usage(node, pods),
    section("Why it was bought", bought(details, choose)),
    section("What keeps it", stays(details)),
    section("Timeline", timeline(details.timeline ?? [])),
    section("Events", eventList(details.events ?? [])),
    section(`Pods (${pods.length})`, podTable(pods, choose)),
    section("Conditions", conditions(details.conditions ?? [], now)),
    section("Taints", taints(details.taints ?? [])),
    section("Labels", labelList(details.labels)),
  ];
}

/** @param {string} text */
const problem = (text) => (text ? [h("p", { class: "problem" }, text)] : []);

/** @param {any} node */
function badges(node) {
  return h("p", { class: "badges" }, [node.state, ...node.marks].map((/** @type {string} */ word) => h("span", { class: "badge", "data-state": word }, word)),
    node.why ? h("span", { class: "quiet" }, ` ${node.why}`) : null);
}

/** @param {any} node @param {number} now @returns {[string, string][]} */
const nodeFacts = (node, now) => [
  ["Type", node.type], ["Zone", node.zone], ["Capacity", node.capacityType], ["Price", node.price === null ? "" : hourly(node.price)],
  ["Pool", node.pool || "not managed by Dovetail"], ["Machine", node.machine], ["Age", duration(now - node.created)],
  ["Goes by force", node.deadline === null ? "" : `at ${clock(node.deadline)}, in ${duration(node.deadline - now)}`],
];

/** @param {any} node @param {Pod[]} pods */
function usage(node, pods) {
  const sum = (/** @type {"cpu"|"memory"} */ key) => pods.reduce((total, pod) => total + pod[key], 0);
  return h("div", { class: "meters" },
    meter("cpu", sum("cpu"), node.cpu, `${cores(sum("cpu"))} of ${cores(node.cpu)} (${percent(sum("cpu"), node.cpu)})`),
    meter("memory", sum("memory"), node.memory, `${bytes(sum("memory"))} of ${bytes(node.memory)} (${percent(sum("memory"), node.memory)})`),
    meter("pods", pods.length, node.podLimit, `${pods.length} of ${node.podLimit}`));
}

/** @param {any} details */
function stays(details) {
  const items = (details.stays ?? []).map((/** @type {{text: string, change: string}} */ item) =>
    h("li", {}, item.text, item.change ? h("span", { class: "change" }, ` It could go if: ${item.change}`) : null));
  const list = items.length ? [h("ul", { class: "words" }, items)] : [];
  return details.command ? [...list, h("p", {}, details.command)] : list;
}

/** @param {any} details @param {Choose} choose @returns {HTMLElement[]} */
function bought({ bought: words, decision }, choose) {
  if (!words && !decision) return [];
  const open = decision ? h("button", { type: "button", class: "plain", onclick: () => choose.moment(decision.at - 1) }, "Show the cluster at this moment") : null;
  return [
    ...(decision ? [h("p", {}, h("time", { class: "quiet" }, clock(decision.at)), ` ${decision.text}`)] : []),
    ...(words ? [h("p", { class: decision ? "quiet" : null }, words)] : []),
    ...(open ? [h("p", {}, open)] : []),
  ];
}

/** @param {Pod[]} pods @param {Choose} choose @returns {HTMLElement[]} the largest are seen at once */
function podTable(pods, choose) {
  if (pods.length === 0) return [h("p", { class: "quiet" }, "No pods.")];
  const sorted = [...pods].sort((a, b) => Number(a.daemon) - Number(b.daemon) || b.cpu - a.cpu);
  const rows = sorted.map((pod) => h("li", {},
    h("button", { type: "button", class: "row", onclick: () => choose.pod(pod.name) },
      h("span", { class: "name" }, pod.name), h("span", { class: "quiet" }, podWords(pod)))));
  const rest = rows.slice(FIRST_PODS);
  const first = h("ul", { class: "rows" }, rows.slice(0, FIRST_PODS));
  if (rest.length === 0) return [first];
  return [first, h("details", {}, h("summary", {}, count(rest.length, "more pod")), h("ul", { class: "rows" }, rest))];
}

/** @param {Pod} pod */
const podWords = (pod) =>
  [pod.state === "running" ? "" : pod.state, pod.daemon ? "daemon" : "", requestsOf(pod)].filter(Boolean).join(" · ");

/** @param {string[]} items */
const taints = (items) => (items.length ? [h("ul", { class: "words" }, items.map((taint) => h("li", {}, h("code", {}, taint))))] : []);

/** @param {any[]} conditions @param {number} now */
const conditions = (conditions, now) => (conditions.length === 0 ? [] : [h("ul", { class: "words" }, conditions.map((condition) =>
  h("li", {}, h("strong", {}, `${condition.type}: ${condition.status}`), condition.since ? ` for ${duration(now - condition.since)}` : "",
    h("span", { class: "quiet" }, [condition.reason, condition.message].filter(Boolean).map((text) => ` ${text}`).join(":")))))]);

/** @param {{at: number, text: string}[]} items */
const timeline = (items) => (items.length === 0 ? [] : [h("ol", { class: "timeline", "aria-label": count(items.length, "step") }, items.map((item) =>
  h("li", {}, h("time", {}, clock(item.at)), ` ${item.text}`)))]);

