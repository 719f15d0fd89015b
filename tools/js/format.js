/** `node format.js` lays out the dashboard's modules with prettier; with `--check` it names those that are not. */
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import * as prettier from "prettier";
import { from_jsx, to_jsx } from "./templates.js";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "../..");
const FOLDERS = ["src/tenure/web/static", "tests/js", "tools/js"];
const NOT_OURS = ["vendor", "node_modules"];
const WIDTH = 104; // a template's marks make a line a little longer than its JSX

/** Every module below a folder. @param {string} folder @returns {string[]} */
const modules = (folder) =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    if (entry.isDirectory())
      return NOT_OURS.includes(entry.name) ? [] : modules(join(folder, entry.name));
    return /\.m?js$/.test(entry.name) ? [join(folder, entry.name)] : [];
  });

/** The text of a module as it should be. @param {string} code */
export async function formatted(code) {
  return from_jsx(await prettier.format(to_jsx(code), { parser: "babel", printWidth: WIDTH }));
}

/** Lays out what is not laid out, or only names it. @param {boolean} check */
async function main(check) {
  for (const file of FOLDERS.flatMap((folder) => modules(join(ROOT, folder)))) {
    const code = readFileSync(file, "utf8");
    const better = await formatted(code);
    if (better === code) continue;
    console.log(
      `${relative(ROOT, file)} ${check ? "is not laid out: run `make format`" : "was laid out anew"}`,
    );
    if (check) process.exitCode = 1;
    else writeFileSync(file, better);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main(process.argv.includes("--check"));
