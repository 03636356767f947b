// Makes a component of a bundled main module: node component.mjs TEMPLATE MODULE OUT
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { snapshot, withState } from './snapshot.mjs';

const [template, module, out] = process.argv.slice(2);
try {
  const { scripts, sources, ...run } = JSON.parse(readFileSync(join(template, 'run.json'), 'utf8'));
  const folders = [[scripts, join(template, 'scripts')], [sources, dirname(module)]];
  const initialized = snapshot(readFileSync(join(template, 'module.wasm')), { ...run, folders });
  writeFileSync(out, withState(readFileSync(join(template, 'component.wasm')), initialized));
} catch (error) {
  // The module's own messages are printed by now.
  console.error(error instanceof WebAssembly.RuntimeError ? `Error: ${error.message}` : error);
  process.exit(1);
}
