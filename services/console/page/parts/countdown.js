/** Times that count down between two polls, and bars of what is left. */

import { duration } from "../model/words.js";
import { h, setText } from "./dom.js";

/** @param {number} deadline @param {number} now */
const words = (deadline, now) => (deadline > now ? `in ${duration(deadline - now)}` : `${duration(now - deadline)} ago`);

/** @param {number|null} deadline @param {number} now @param {number} since of the notice @returns {HTMLElement} */
export function countdown(deadline, now, since) {
  if (deadline === null) return h("span", { class: "quiet" }, `no deadline, since ${duration(now - since)}`);
  return h("span", { class: "countdown", "data-deadline": deadline }, words(deadline, now));
}

/** @param {HTMLElement} root @param {number} now brings all countdowns below `root` up to date */
export function countDown(root, now) {
  for (const element of root.querySelectorAll("[data-deadline]")) {
    const deadline = Number(element.getAttribute("data-deadline"));
    setText(element, words(deadline, now));
    element.classList.toggle("soon", deadline - now < 30);
  }
  for (const bar of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("[data-to]"))) {
    const [from, to] = [Number(bar.dataset.from), Number(bar.dataset.to)];
    bar.style.width = `${to > from ? Math.min(100, Math.max(0, (100 * (to - now)) / (to - from))) : 0}%`;
  }
}
