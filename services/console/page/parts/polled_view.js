/** What the views beside the cluster share: they poll while shown, and say when the answer is missing or incomplete. */

import { byId, h, setText } from "./dom.js";
import { Poller } from "./poller.js";

export class PolledView {
  /** @param {string} name of the view @param {string} title @param {string} path of the endpoint */
  constructor(name, title, path) {
    this.name = name;
    this.section = byId(`view-${name}`);
    this.problem = h("p", { class: "problem", role: "alert" });
    this.content = h("div", { class: "content" }, h("p", { class: "quiet", role: "status" }, "Loading …"));
    this.section.append(h("h2", { class: "hidden-text" }, title), this.problem, this.content);
    this.poller = new Poller(path, (answer) => this.#take(answer), (problem) => setText(this.problem, `Not up to date: ${problem}`));
    this.built = false;
  }

  start() {
    this.poller.start();
  }

  stop() {
    this.poller.stop();
  }

  /** @param {any} answer */
  #take(answer) {
    setText(this.problem, answer.problem ?? "");
    if (!this.built) this.content.replaceChildren(...this.build());
    this.built = true;
    this.show(answer);
  }

  /** @returns {HTMLElement[]} the parts of the view, made once */
  build() {
    return [];
  }

  /** @param {any} answer shown in the parts */
  show(answer) {
    throw new Error(`nothing shows ${JSON.stringify(answer)}`);
  }
}
