// Bundles the dev loader's main module: node loader.mjs GLUE OUT
import { build } from 'esbuild';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const [glue, outfile] = process.argv.slice(2);
await build({
  entryPoints: [join(glue, 'loader.js')],
  bundle: true,
  format: 'esm',
  platform: 'neutral',
  target: 'es2022',
  external: ['wasi:*', 'svc:*'],
  nodePaths: [fileURLToPath(new URL('../node_modules', import.meta.url))],
  outfile,
  logLevel: 'error',
});
