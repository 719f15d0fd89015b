// pg-boss. Best: batches of 500, polls every half second (the quickest it takes).
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
    for (const kind of kinds) {
      const fast = { batchSize: kind === "nothing" ? 500 : 1, pollingIntervalSeconds: 0.5 };
      await boss.work(kind, best ? fast : {}, (jobs) => Promise.all(jobs.map((job) => work(kind, job.data.k))));
    }
  },
});
