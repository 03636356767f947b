// Bundles the dev loader's main module: node loader.mjs GLUE OUT
import { build } from 'esbuild';
import { join } from 'node:path';

const [glue, outfile] = process.argv.slice(2);
await build({
  entryPoints: [join(glue, 'loader.js')],
  bundle: true,
  format: 'esm',
  platform: 'neutral',
  target: 'es2022',
  external: ['wasi:*', 'svc:*'],
  outfile,
  logLevel: 'error',
});
