// graphile-worker. Best, by its page on performance: a local queue of 500, 24 at once, completions batched.
const { run, makeWorkerUtils } = require("graphile-worker");
const { main, work } = require("./driver.js");

const kinds = ["nothing", "tell", "hang"];
const taskList = Object.fromEntries(kinds.map((kind) => [kind, (payload) => work(kind, payload.k)]));
const fast = { concurrentJobs: 24, maxPoolSize: 30, localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };

main({
  async setup(url) {
    const utils = await makeWorkerUtils({ connectionString: url });
    await utils.migrate();
  },
  async sender(url) {
    const utils = await makeWorkerUtils({ connectionString: url });
    return {
      one: (kind, payload) => utils.addJob(kind, payload),
      many: (kind, payloads) => utils.addJobs(payloads.map((payload) => ({ identifier: kind, payload }))),
    };
  },
  async worker(url, best) {
    const preset = { worker: { connectionString: url, ...(best ? fast : {}) } };
    const runner = await run({ preset, taskList, noHandleSignals: true });
    await runner.promise;
  },
});
