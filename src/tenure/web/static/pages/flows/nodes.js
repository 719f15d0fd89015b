/** The steps of a flow as a graph: lanes of nodes, branches below their step, an undo beside what it undoes. Pure. */

/**
 * @typedef {{batch: string, size: number, open: number, failed: number, cancelled: number,
 *   ended: boolean}} Children
 * @typedef {{path: string, n: number, name: string, state: string, tries: number, recorded_at: string,
 *   until: string | null, result: string | null, error: string | null, children: Children | null}} Step
 * @typedef {{step: Step, label: string, undo: Step | null, branches: Node[][]}} Node
 */

/** @type {[string, string][]} */
const WORDS = [
  ["wait:", "wait for "],
  ["map:", "map "],
  ["call:", "call "],
  ["start:", "start "],
  ["patch:", "patched "],
  ["undo:", "undo "],
];

/** What a step is called on the page. @param {string} name */
export function label_of(name) {
  const found = WORDS.find(([prefix]) => name.startsWith(prefix));
  return found ? found[1] + name.slice(found[0].length) : name;
}

/** How many, without the marks of the flow itself. @param {Step[]} steps */
export const recorded = (steps) =>
  steps.filter((step) => !["undone", "cancel"].includes(step.path)).length;

/** Is it an undo? Its path is that of the step it undoes, below "undo". @param {Step} step */
export const is_undo = (step) => step.path === "undo" || step.path.startsWith("undo/");

/** The lane of the function itself. @param {Step[]} steps @returns {Node[]} */
export function graph(steps) {
  const undos = new Map(steps.filter(is_undo).map((undo) => [`${undo.path}/${undo.n}`, undo]));
  const left = steps.filter((step) => !is_undo(step));
  const undone = new Map();
  for (const step of left) {
    const undo = undos.get(`undo/${step.path ? `${step.path}/` : ""}${step.n}`);
    if (undo) undone.set(step, undo);
  }
  return lane(left, "", undone);
}

/**
 * One line of steps in their order; what waits for children is one node with the step that sent them.
 * @param {Step[]} steps @param {string} path @param {Map<Step, Step>} undone @returns {Node[]}
 */
function lane(steps, path, undone) {
  const own = steps.filter((step) => step.path === path).sort((a, b) => a.n - b.n);
  const nodes = [];
  for (let i = 0; i < own.length; i += 1) {
    const sent = own[i];
    const waits = own[i + 1]?.name.startsWith("group:") ? own[(i += 1)] : null;
    if (waits && own[i + 1]?.name === "ends") i += 1;
    const step = waits ?? sent;
    const branches = paths_below(steps, path, sent.n).map((below) => lane(steps, below, undone));
    nodes.push({ step, label: label_of(sent.name), undo: undone.get(sent) ?? null, branches });
  }
  return nodes;
}

/** @param {Step[]} steps @param {string} path @param {number} n */
function paths_below(steps, path, n) {
  const start = `${path ? `${path}/` : ""}${n}.`;
  const found = steps.map((step) => step.path).filter((each) => each.startsWith(start));
  const direct = found.map((each) => start + each.slice(start.length).split("/")[0]);
  return [...new Set(direct)].sort();
}

/**
 * Has a dead letter something that it did and has not undone? @param {{status: string, steps: Step[]}} flow
 */
export const has_left = (flow) =>
  flow.status === "dead_letter" &&
  flow.steps.length > 0 &&
  !flow.steps.some((step) => step.path === "undone" && step.state === "done");

/** @type {Record<string, string>} */
const STATES = {
  begun: "begun",
  done: "done",
  failed: "failed",
  waiting: "waits",
  retrying: "is tried again",
  timed_out: "timed out",
  cancelled: "cancelled here",
  patched: "marked",
};

/** How a step stands, in a word or two. @param {Step} step */
export const state_words = (step) => STATES[step.state] ?? step.state;

/** Is the flow at this step now? @param {Step} step */
export const is_current = (step) => ["begun", "waiting", "retrying"].includes(step.state);
