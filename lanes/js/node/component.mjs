// Makes a component of a bundled main module: node component.mjs TEMPLATE MODULE OUT HEAP
//
// HEAP is the maximum of objects in MiB.
import { openSync, readFileSync, writevSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { initialState, withState } from './snapshot.mjs';

const [template, module, out, heap] = process.argv.slice(2);
try {
  const { scripts, sources, ...run } = JSON.parse(readFileSync(join(template, 'run.json'), 'utf8'));
  const folders = [[scripts, join(template, 'scripts')], [sources, dirname(module)]];
  const state = initialState(readFileSync(join(template, 'module.wasm')), { ...run, folders, heap: +heap });
  writevSync(openSync(out, 'w'), withState(readFileSync(join(template, 'component.wasm')), state));
} catch (error) {
  // The module's own messages are printed by now.
  console.error(error instanceof WebAssembly.RuntimeError ? `Error: ${error.message}` : error);
  process.exit(1);
}
