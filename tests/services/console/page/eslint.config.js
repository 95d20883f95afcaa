import js from "@eslint/js";
import globals from "globals";

const MODEL = ["services/console/page/model/**/*.js"];

export default [
  { ignores: ["services/console/page/vendor/**", "**/node_modules/**"] },
  js.configs.recommended,
  {
    languageOptions: { ecmaVersion: 2023, sourceType: "module", globals: globals.browser },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      complexity: ["error", 16],
      "consistent-return": "off",
      curly: ["error", "multi-line"],
      eqeqeq: "error",
      "max-len": ["error", { code: 170, ignoreComments: false }],
      "max-lines": ["error", 350],
      "max-lines-per-function": ["error", { max: 40, skipBlankLines: true, skipComments: true }],
      "max-params": ["error", 6],
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-restricted-properties": [
        "error",
        { property: "innerHTML", message: "Text from the cluster is not trusted: use textContent." },
        { property: "outerHTML", message: "Text from the cluster is not trusted: use textContent." },
        { property: "insertAdjacentHTML", message: "Text from the cluster is not trusted: use append." },
      ],
      "no-var": "error",
      "prefer-const": "error",
    },
  },
  // The model is tested without a browser, so it must not need one.
  {
    files: MODEL,
    languageOptions: { globals: { URLSearchParams: "readonly" } },
    rules: { "no-restricted-globals": ["error", "document", "window", "location", "localStorage", "history", "fetch"] },
  },
  { files: ["tests/services/console/page/**/*.js"], languageOptions: { globals: globals.node }, rules: { "max-lines-per-function": "off" } },
];
