/** JSON text, indented and coloured without being parsed: every digit on screen is a digit of the row. */
import { html } from "../../lib/ui.js";

const TOKEN = /"(?:\\.|[^"\\])*"|-?\d[\d.eE+-]*|true|false|null|[{}[\],:]|\s+|[\s\S]/g;
const COLOURED_MAX = 60_000;

/** @typedef {{kind: string, text: string}} Token */

/** Tokens with line breaks and indents of our own. @param {string} text @returns {Token[]} */
export function indented(text) {
  const tokens = (text.match(TOKEN) ?? []).filter((token) => token.trim());
  const result = /** @type {Token[]} */ ([]);
  let depth = 0;
  const line = () => void result.push({ kind: "", text: "\n" + "  ".repeat(depth) });
  tokens.forEach((token, i) => {
    const opens = token === "{" || token === "[";
    const closes = token === "}" || token === "]";
    if (closes) depth = Math.max(0, depth - 1);
    if (closes && !/^[{[]$/.test(tokens[i - 1])) line();
    result.push({ kind: kind_of(token, tokens[i + 1]), text: token });
    if (opens) depth++;
    if ((opens && !/^[}\]]$/.test(tokens[i + 1])) || token === ",") line();
    if (token === ":") result.push({ kind: "", text: " " });
  });
  return result;
}

/** @param {string} token @param {string | undefined} next */
function kind_of(token, next) {
  if (token[0] === '"') return next === ":" ? "name" : "string";
  if (/^-?\d/.test(token)) return "digits";
  return /^[a-z]/.test(token) ? "word" : "";
}

/** @param {{text: string}} props */
export function Json({ text }) {
  if (text.length > COLOURED_MAX)
    return html`
      <pre class="text" tabindex="0">
        ${text}
      </pre>
    `;
  return html`
    <pre class="text json" tabindex="0">
      ${indented(text).map(({ kind, text: part }) =>
        kind ? html`<span class=${`json-${kind}`}>${part}</span>` : part,
      )}
    </pre>
  `;
}
