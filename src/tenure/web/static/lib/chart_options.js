/** The options of a chart for uPlot, in the colours of the theme. */
import { colour } from "./theme.js";

/**
 * @typedef {{label: string, token: string, values: (number | null)[], pale?: boolean}} Series
 *   token: a colour's name, as in "--held"
 */
/**
 * @typedef {{format: (value: number) => string, stacked: boolean, across?: (seconds: number) => string,
 *   width: number, height: number}} Look
 */

/** Seconds between two moments on the axis: whole minutes, or a moment would be written twice. */
const WHOLE = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

/**
 * Each series on top of those before it; drawn from the tallest down, so that all stay visible.
 * @param {Series[]} series
 */
export function stack(series) {
  let below = /** @type {number[]} */ ([]);
  return series.map(({ values }) => (below = values.map((value, i) => (value ?? 0) + (below[i] ?? 0))));
}

/**
 * @param {Series[]} series
 * @param {Look} look
 * @param {(index: number | null) => void} point hears what the pointer is at
 * @returns {import("../vendor/uplot.js").default.Options}
 */
export function options(series, look, point) {
  const { width, height, stacked, across } = look;
  return {
    width,
    height,
    padding: [10, 18, 0, 0],
    legend: { show: false },
    cursor: {
      y: false,
      points: { size: 6 },
      ...(!across && { sync: { key: "overview" } }),
      drag: { x: false, y: false },
    },
    scales: { y: { range: (_, __, high) => [0, (high || 1) * 1.12] } },
    axes: axes(look),
    series: [{}, ...series.map((each) => line(each, stacked))],
    hooks: { setCursor: [(plot) => point(plot.cursor.idx ?? null)] },
  };
}

/** Time below, values to the left. @param {Look} look @returns {import("../vendor/uplot.js").default.Axis[]} */
function axes({ format, across }) {
  const axis = {
    stroke: colour("--quiet"),
    font: "11px system-ui, sans-serif",
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
  };
  const moments = across
    ? (/** @type {uPlot} */ _, /** @type {number[]} */ ticks) => ticks.map(across)
    : "{HH}:{mm}";
  return [
    {
      ...axis,
      space: 70,
      size: 28,
      grid: { show: false },
      values: moments,
      ...(!across && { incrs: WHOLE }),
    },
    { ...axis, space: 36, size: 56, values: (_, ticks) => ticks.map(format) },
  ];
}

/** @param {Series} series @param {boolean} stacked @returns {import("../vendor/uplot.js").default.Series} */
function line({ token, pale }, stacked) {
  return {
    stroke: colour(token, pale ? 70 : 100),
    width: pale ? 1 : 1.5,
    points: { show: false },
    fill: stacked ? colour(token, 34) : undefined,
    spanGaps: false,
  };
}
