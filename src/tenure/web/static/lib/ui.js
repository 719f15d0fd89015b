/** The only importer of the vendored modules: pages import markup, hooks and signals from here. */
import { Fragment, h, render } from "../vendor/preact.js";
import htm from "../vendor/htm.js";
import * as signals from "../vendor/signals.js";
import { seen } from "./words.js";

export { Fragment, h, render };
export {
  useCallback,
  useEffect,
  useErrorBoundary,
  useId,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "../vendor/hooks.js";
export {
  batch,
  effect,
  untracked,
  useComputed,
  useSignal,
  useSignalEffect,
} from "../vendor/signals.js";

/** @template T @typedef {{value: T, peek: () => T}} Signal */
export const signal = /** @type {<T>(value: T) => Signal<T>} */ (signals.signal);
export const computed = /** @type {<T>(of: () => T) => Signal<T>} */ (signals.computed);

/** Texts of others as they may be drawn, wherever they stand in an element. @param {any} child @returns {any} */
function drawn(child) {
  if (typeof child === "string") return seen(child);
  return Array.isArray(child) ? child.map(drawn) : child;
}

const DRAWN = ["title", "aria-label", "placeholder"]; // attributes that are shown or spoken

/**
 * An element; a component is given its texts as they are.
 * @param {any} type
 * @param {any} props
 * @param {any[]} children
 */
function element(type, props, ...children) {
  if (typeof type !== "string") return h(type, props, ...children);
  const texts = DRAWN.filter((name) => typeof props?.[name] === "string");
  const clean = Object.fromEntries(texts.map((name) => [name, seen(props[name])]));
  return h(type, texts.length ? { ...props, ...clean } : props, ...children.map(drawn));
}

/** Markup as a tagged template: html`<p class="quiet">${text}</p>` */
export const html = /** @type {(strings: TemplateStringsArray, ...values: any[]) => any} */ (
  htm.bind(element)
);
