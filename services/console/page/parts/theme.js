/** Light or dark: as the system says, or as the reader chose. */

import { h } from "./dom.js";

const KEY = "dovetail-theme";

/** @returns {string} */
function stored() {
  try {
    return localStorage.getItem(KEY) ?? "auto";
  } catch {
    return "auto"; // private windows may forbid storage
  }
}

/** @param {string} theme */
function store(theme) {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // The choice then holds until the page is closed.
  }
}

/** @param {() => void} changed called after the colours changed @returns {HTMLElement} */
export function themeSwitch(changed) {
  const select = h("select", { "aria-label": "Theme", class: "theme" },
    ["auto", "light", "dark"].map((name) => h("option", { value: name }, name === "auto" ? "Auto" : name === "light" ? "Light" : "Dark")));
  const apply = () => {
    document.documentElement.dataset.theme = select.value;
    changed();
  };
  select.value = stored();
  select.addEventListener("change", () => { store(select.value); apply(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
  apply();
  return select;
}
