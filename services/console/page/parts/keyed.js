/** A list that is shown again and again: an item that did not change keeps its element, and with it focus and open parts. */

/** @template T */
export class Keyed {
  /** @type {Map<string, {text: string, element: HTMLElement}>} */ #kept = new Map();

  /** @param {HTMLElement} container @param {(item: T) => HTMLElement} make */
  constructor(container, make) {
    this.container = container;
    this.make = make;
  }

  /** @param {T[]} items @param {(item: T) => string} keyOf */
  show(items, keyOf) {
    const before = this.#kept;
    this.#kept = new Map();
    for (const item of items) {
      const text = JSON.stringify(item);
      const kept = before.get(keyOf(item));
      this.#kept.set(keyOf(item), kept?.text === text ? kept : { text, element: this.make(item) });
    }
    this.#place([...this.#kept.values()].map((kept) => kept.element));
  }

  /** @param {HTMLElement[]} elements */
  #place(elements) {
    const wanted = new Set(/** @type {Element[]} */ (elements));
    for (const child of [...this.container.children]) if (!wanted.has(child)) child.remove();
    // Only what stands elsewhere is moved: moving an element takes the focus from it.
    elements.forEach((element, index) => {
      if (this.container.children[index] !== element) this.container.insertBefore(element, this.container.children[index] ?? null);
    });
  }
}
