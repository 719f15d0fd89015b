/** html`…` templates as JSX and back: htm trims blanks as JSX does, so prettier can lay out what it cannot read. */
import { parse } from "@babel/parser";

// <${Panel}> is written <$$$Panel>: as long as in the template, and a component to prettier.
const COMPONENT = "$$$";
// A fragment's brackets while lines are put together; the lines that hold nothing else go.
const OPENS = "\u0001";
const CLOSES = "\u0002";

/** Every node of a tree, parents first. @param {any} node @param {(node: any, parent: any) => void} visit @param {any} [parent] */
function walk(node, visit, parent = null) {
  visit(node, parent);
  for (const [name, value] of Object.entries(node)) {
    if (name.endsWith("omments") || name === "loc" || name === "extra" || name === "tokens") continue;
    for (const child of Array.isArray(value) ? value : [value])
      if (typeof child?.type === "string") walk(child, visit, node);
  }
}

/** A module with every html`…` as JSX. @param {string} code */
export function to_jsx(code) {
  const templates = /** @type {any[]} */ ([]);
  walk(parse(code, { sourceType: "module" }).program, (node) => {
    if (node.type === "TaggedTemplateExpression" && node.tag.name === "html") templates.push(node);
  });
  const between = (/** @type {number} */ from, /** @type {number} */ to) => {
    let [written, at] = ["", from];
    for (const { start, end, quasi } of templates) {
      if (start < at || end > to) continue;
      written += code.slice(at, start) + markup(pieces(quasi));
      at = end;
    }
    return written + code.slice(at, to);
  };
  /** Letters, and expressions as {code}. @param {any} quasi */
  const pieces = ({ quasis, expressions }) =>
    quasis.flatMap((/** @type {any} */ quasi, /** @type {number} */ nth) => {
      const letters = [...quasi.value.raw];
      return nth < expressions.length
        ? [...letters, { code: between(quasi.end + 2, quasis[nth + 1].start - 1) }]
        : letters;
    });
  return between(0, code.length);
}

/** The JSX of one template. @param {(string | {code: string})[]} pieces */
function markup(pieces) {
  const open = /** @type {string[]} */ ([]);
  let [written, roots, bare, at] = ["", 0, false, 0];
  while (at < pieces.length) {
    const piece = pieces[at];
    if (piece === "<" && pieces[at + 1] === "/") {
      at = pieces.indexOf(">", at) + 1;
      written += `</${open.pop()}>`;
    } else if (piece === "<") {
      roots += open.length ? 0 : 1;
      const tag = opening(pieces, at);
      if (!tag.closed) open.push(tag.name);
      written += tag.written;
      at = tag.end;
    } else {
      bare ||= !open.length && (typeof piece !== "string" || piece.trim() !== "");
      written +=
        typeof piece !== "string" ? `{${piece.code}}` : "{}>".includes(piece) ? `{"${piece}"}` : piece;
      at += 1;
    }
  }
  const [, before, inside, after] = /** @type {string[]} */ (/^(\s*)([^]*?)(\s*)$/.exec(written));
  const kept = (/** @type {string} */ blank) => (blank && !blank.includes("\n") ? '{" "}' : "");
  if (roots === 1 && !bare && !kept(before) && !kept(after)) return `(${inside})`;
  return `(<>${kept(before)}${inside}${kept(after)}</>)`;
}

/** The tag that begins here. @param {(string | {code: string})[]} pieces @param {number} start */
function opening(pieces, start) {
  let [name, written, at, quoted] = ["", "", start + 1, false];
  const first = pieces[at];
  if (typeof first !== "string") [name, at] = [COMPONENT + first.code.trim(), at + 1];
  else while (/[\w-]/.test(String(pieces[at]))) name += pieces[at++];
  for (; quoted || pieces[at] !== ">"; at++) {
    const piece = pieces[at];
    if (piece === undefined) throw new Error(`a tag <${name}> does not end`);
    if (piece === '"') quoted = !quoted;
    if (typeof piece === "string") written += piece;
    else
      written = written.endsWith("...")
        ? `${written.slice(0, -3)}{...${piece.code}}`
        : `${written}{${piece.code}}`;
  }
  return { name, written: `<${name}${written}>`, end: at + 1, closed: written.endsWith("/") };
}

/** A module with every piece of JSX as html`…`. @param {string} code */
export function from_jsx(code) {
  const edits = /** @type {[number, number, string][]} */ ([]); // from, to, what stands there instead
  walk(parse(code, { sourceType: "module", plugins: ["jsx"] }).program, (node, parent) => {
    const is_markup = node.type === "JSXElement" || node.type === "JSXFragment";
    if (is_markup && !parent.type.startsWith("JSX")) edits.push(...quotes(code, node));
    else if (is_markup && parent.type === "JSXExpressionContainer") edits.push(...quotes(code, node));
    if (node.type === "JSXElement") edits.push(...names(code, node));
    if (node.type === "JSXFragment") {
      edits.push([node.openingFragment.start, node.openingFragment.end, OPENS]);
      edits.push([node.closingFragment.start, node.closingFragment.end, CLOSES]);
    }
    if (node.type === "JSXExpressionContainer") edits.push([node.start, node.start, "$"]);
    if (node.type === "JSXSpreadAttribute") edits.push([node.start, node.argument.start, "...${"]);
  });
  edits.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let [written, at] = ["", 0];
  for (const [from, to, text] of edits) {
    if (from < at) throw new Error(`two things are one: ${code.slice(from, from + 60)}`);
    written += code.slice(at, from) + text;
    at = to;
  }
  return without_fragments(written + code.slice(at));
}

/** html` and ` around a piece of JSX, in place of brackets where it has some. @param {string} code @param {any} node @returns {[number, number, string][]} */
function quotes(code, { start, end, extra }) {
  if (!extra?.parenthesized)
    return [
      [start, start, "html`"],
      [end, end, "`"],
    ];
  const close = code.indexOf(")", end);
  const lines = code.slice(extra.parenStart, start).includes("\n");
  return [
    [extra.parenStart, lines ? extra.parenStart + 1 : start, "html`"],
    [lines ? close : end, close + 1, "`"],
  ];
}

/** <${Panel}> and <//> where the name is a component's. @param {string} code @param {any} node @returns {[number, number, string][]} */
function names(code, { openingElement: { name }, closingElement: close }) {
  const written = code.slice(name.start, name.end);
  if (!written.startsWith(COMPONENT)) return [];
  const opened = /** @type {[number, number, string]} */ ([
    name.start,
    name.end,
    `\${${written.slice(COMPONENT.length)}}`,
  ]);
  return close ? [opened, [close.start, close.end, "<//>"]] : [opened];
}

/** A template needs no fragment: what was inside moves to the left. @param {string} text */
function without_fragments(text) {
  let depth = 0;
  const lines = text.split("\n").flatMap((line) => {
    if (line.trim() === OPENS) depth += 1;
    else if (line.trim() === CLOSES) depth -= 1;
    else return [line.slice(Math.min(2 * depth, line.search(/\S|$/)))];
    return [];
  });
  return lines.join("\n").replaceAll(OPENS, "").replaceAll(CLOSES, "");
}
