// Makes a component of a bundled main module: node componentize.mjs MODULE WIT WORLD OUT
import { componentize } from '@bytecodealliance/componentize-js';
import { writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

const [sourcePath, witPath, worldName, out] = process.argv.slice(2);
try {
  // The snapshot tool is a script: it runs on this very node.
  const wizerBin = fileURLToPath(new URL('snapshot.mjs', import.meta.url));
  const env = { PATH: dirname(process.execPath) };
  const { component } = await componentize({ sourcePath, witPath, worldName, env, wizerBin });
  await writeFile(out, component);
} catch (error) {
  console.error(String(error?.message ?? error));
  process.exit(1);
}
