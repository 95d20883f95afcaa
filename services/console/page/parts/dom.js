/** Elements. Text from the cluster is only ever set as text, never parsed as HTML. */

/** @typedef {string|number|Node|null|undefined|false} Child */
/** @typedef {Record<string, string|number|boolean|null|undefined|((event: any) => void)>} Attributes */

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag @param {Attributes} [attributes] "onclick" and the like are listeners; false and null leave an attribute out
 * @param {...(Child|Child[])} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) setAttribute(element, name, value);
  element.append(...children.flat().filter(isChild).map((child) => (child instanceof Node ? child : String(child))));
  return element;
}

/** @param {Child} child @returns {child is string|number|Node} */
const isChild = (child) => child !== null && child !== undefined && child !== false && child !== "";

/** @param {HTMLElement} element @param {string} name @param {Attributes[string]} value */
function setAttribute(element, name, value) {
  if (typeof value === "function") element.addEventListener(name.slice(2), value);
  else if (value === true) element.setAttribute(name, "");
  else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
}

/** @param {string} id @returns {HTMLElement} */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no element ${id}`);
  return element;
}

/** @param {Element} element @param {string} text leaves an equal text alone, so that screen readers do not repeat it */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** @param {() => void} work @param {number} milliseconds @returns {() => void} runs `work` at most that often, and once more after the last call */
export function atMostEvery(work, milliseconds) {
  let last = 0;
  /** @type {number|undefined} */
  let timer;
  const run = () => {
    timer = undefined;
    last = Date.now();
    work();
  };
  return () => {
    timer ??= window.setTimeout(run, Math.max(0, last + milliseconds - Date.now()));
  };
}
