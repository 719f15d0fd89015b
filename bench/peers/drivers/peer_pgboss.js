// pg-boss. Best: four workers a queue with batches of 500, each of which goes on to fetch and complete as long as there
// are jobs, for its own polls are half a second apart at least.
const library = require("pg-boss");
const { main, work } = require("./driver.js");

const PgBoss = library.PgBoss || library.default || library;
const kinds = ["nothing", "tell", "hang"];

async function started(url) {
  const boss = new PgBoss({ connectionString: url });
  boss.on("error", (error) => process.stderr.write(`${error}\n`));
  await boss.start();
  return boss;
}

main({
  async setup(url) {
    const boss = await started(url);
    for (const kind of kinds) await boss.createQueue(kind);
  },
  async sender(url) {
    const boss = await started(url);
    const insert = (kind, payloads) =>
      boss.insert.length > 1
        ? boss.insert(kind, payloads.map((data) => ({ data })))
        : boss.insert(payloads.map((data) => ({ name: kind, data })));
    return { one: (kind, data) => boss.send(kind, data), many: insert };
  },
  async worker(url, best) {
    const boss = await started(url);
    const run = (kind, jobs) => Promise.all(jobs.map((job) => work(kind, job.data.k)));
    const all = (kind) => async (jobs) => {
      for (; jobs.length; jobs = await boss.fetch(kind, { batchSize: 500 })) {
        await run(kind, jobs);
        await boss.complete(kind, jobs.map((job) => job.id));
      }
    };
    for (const kind of kinds) {
      if (!best) await boss.work(kind, (jobs) => run(kind, jobs));
      else for (let n = 0; n < 4; n += 1) await boss.work(kind, { batchSize: 500, pollingIntervalSeconds: 0.5 }, all(kind));
    }
  },
});
