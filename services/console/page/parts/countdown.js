/** Times that count down between two polls. */

import { duration } from "../model/words.js";
import { h, setText } from "./dom.js";

/** @param {number} deadline @param {number} now */
const words = (deadline, now) => (deadline > now ? `in ${duration(deadline - now)}` : `${duration(now - deadline)} ago`);

/** @param {number|null} deadline @param {number} now @returns {HTMLElement} */
export const countdown = (deadline, now) =>
  deadline === null ? h("span", { class: "quiet" }, "no deadline") : h("span", { class: "countdown", "data-deadline": deadline }, words(deadline, now));

/** @param {HTMLElement} root @param {number} now brings all countdowns below `root` up to date */
export function countDown(root, now) {
  for (const element of root.querySelectorAll("[data-deadline]")) {
    const deadline = Number(element.getAttribute("data-deadline"));
    setText(element, words(deadline, now));
    element.classList.toggle("soon", deadline - now < 30);
  }
}
