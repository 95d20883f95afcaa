/** What is under the mouse, in words. */

import { hourly, nodeName, percent, requestsOf, shortDuration } from "../model/words.js";
import { byId, h } from "../parts/dom.js";

/**
 * @typedef {import("../drawing/stage.js").Stage} Stage
 * @typedef {NonNullable<ReturnType<Stage["at"]>>} Hit
 */

/** @param {Stage} stage @param {HTMLElement} frame */
export function makeTooltip(stage, frame) {
  const tip = byId("tooltip");
  frame.addEventListener("pointermove", (event) => {
    const hit = event.pointerType === "touch" ? null : stage.at(event.offsetX, event.offsetY);
    frame.classList.toggle("over-box", hit !== null);
    tip.hidden = hit === null;
    if (hit) show(tip, hit, stage.now(), event);
  });
  frame.addEventListener("pointerleave", () => { tip.hidden = true; });
}

/** @param {HTMLElement} tip @param {Hit} hit @param {number} now @param {PointerEvent} event */
function show(tip, { sprite, pod }, now, event) {
  const { node, used } = sprite;
  const facts = [node.type, node.zone, node.capacityType, node.price === null ? "" : hourly(node.price), shortDuration(now - node.created)];
  tip.replaceChildren(
    h("strong", {}, nodeName(node)),
    h("span", {}, facts.filter(Boolean).join(" · ")),
    h("span", {}, `cpu ${percent(used.cpu, node.cpu)} · memory ${percent(used.memory, node.memory)} · ${used.pods} of ${node.podLimit} pods`),
    h("span", {}, [node.state, ...node.marks].join(" · ") + (node.why ? `: ${node.why}` : "")),
  );
  if (pod) tip.append(h("strong", {}, pod.name), h("span", {}, `${pod.state} · ${requestsOf(pod)}${pod.daemon ? " · DaemonSet" : ""}`));
  const x = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
  const y = event.clientY + 18 + tip.offsetHeight > window.innerHeight ? event.clientY - tip.offsetHeight - 10 : event.clientY + 18;
  tip.style.left = `${Math.max(4, x)}px`;
  tip.style.top = `${Math.max(4, y)}px`;
}
