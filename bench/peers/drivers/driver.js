// What the drivers for node share, by the protocol of driver.py: node peer_NAME.js setup|one|many|worker URL …
const fs = require("fs");
const path = require("path");

const FOLDER = process.env.BENCH_FOLDER || ".";
const now = () => Number(process.hrtime.bigint()) / 1e9;
const fields = (k) => ({ k, email: "someone@example.com", note: "x".repeat(60) });
let count = 0;

function counted() {
  if (count === 0) {
    const file = path.join(FOLDER, `count-${process.pid}`);
    setInterval(() => {
      fs.writeFileSync(`${file}.new`, `${count}`);
      fs.renameSync(`${file}.new`, file);
    }, 50);
  }
  count += 1;
}

async function work(kind, k) {
  if (kind === "nothing") return counted();
  fs.appendFileSync(path.join(FOLDER, kind === "tell" ? "starts" : "hangs"), `${k} ${now()}\n`);
  if (kind === "hang") await new Promise((done) => setTimeout(done, 900_000));
}

async function main(driver) {
  const [command, url, ...rest] = process.argv.slice(2);
  if (command === "setup") {
    await driver.setup(url);
    process.exit(0);
  }
  if (command === "worker") return driver.worker(url, rest[0] === "best");
  const [kind, from, rows, pace] = [rest[0], Number(rest[1]), Number(rest[2]), Number(rest[3])];
  const sender = await driver.sender(url);
  const ready = now();
  const sent = [];
  if (command === "many") {
    for (let at = 0; at < rows; at += 1000) {
      const part = Array.from({ length: Math.min(1000, rows - at) }, (_, n) => fields(from + at + n));
      await sender.many(kind, part);
    }
    sent.push([from + rows, now()]);
  } else {
    for (let k = from; k < from + rows; k += 1) {
      await sender.one(kind, fields(k));
      sent.push([k, now()]);
      if (pace) await new Promise((done) => setTimeout(done, 1000 * pace));
    }
  }
  process.stdout.write(JSON.stringify({ ready, sent }), () => process.exit(0));
}

module.exports = { main, work };
