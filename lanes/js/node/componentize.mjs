// Makes a component of a bundled main module: node componentize.mjs MODULE WIT WORLD OUT
import { componentize } from '@bytecodealliance/componentize-js';
import { writeFile } from 'node:fs/promises';

const [sourcePath, witPath, worldName, out] = process.argv.slice(2);
try {
  const { component } = await componentize({ sourcePath, witPath, worldName, env: {} });
  await writeFile(out, component);
} catch (error) {
  console.error(String(error?.message ?? error));
  process.exit(1);
}
