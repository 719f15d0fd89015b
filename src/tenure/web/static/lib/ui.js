/** The only importer of the vendored modules: pages import markup, hooks and signals from here. */
import { Fragment, h, render } from "../vendor/preact.js";
import htm from "../vendor/htm.js";
import * as signals from "../vendor/signals.js";

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

/** Markup as a tagged template: html`<p class="quiet">${text}</p>` */
export const html = /** @type {(strings: TemplateStringsArray, ...values: any[]) => any} */ (
  htm.bind(h)
);
