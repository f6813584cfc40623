// Checks the project's vectors in another language: node verify.mjs [DIRECTORY [FOLDER/NAME.json ...]]
// Needs Node 20 and nothing else. Prints what fails; exit status 1 when something does.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { checkCall } from "./call.mjs";
import { checkCeilingsVector } from "./ceilings.mjs";
import { checkId } from "./ids.mjs";
import { checkSealed } from "./sealed.mjs";
import { checks } from "./signed.mjs";

const only = process.argv.slice(3);
const root = process.argv[2] ?? fileURLToPath(new URL("../../tests/vectors", import.meta.url));
/** @type {Record<string, (vector: any) => string[]>} */
const CHECKS = {
  digest: checkCall, json: checkCall, ceilings: checkCeilingsVector, ids: checkId, sealed: checkSealed, ...checks(root),
}; // prettier-ignore

let failed = 0;
for (const [folder, check] of Object.entries(CHECKS)) {
  const isWanted = (/** @type {string} */ name) =>
    name.endsWith(".json") && (only.length === 0 || only.includes(`${folder}/${name}`));
  const names = readdirSync(join(root, folder)).filter(isWanted).sort();
  if (names.length === 0 && only.length === 0) {
    console.error(`${folder}: no vectors`);
    failed += 1;
  }
  for (const name of names) {
    const problems = check(JSON.parse(readFileSync(join(root, folder, name), "utf8")));
    for (const problem of problems) console.error(`${folder}/${name}: ${problem}`);
    failed += problems.length > 0 ? 1 : 0;
  }
  console.log(`${folder}: ${names.length} vectors`);
}
process.exitCode = failed > 0 ? 1 : 0;
