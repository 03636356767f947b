// Bundles a main module of the glue: node glue.mjs FILE OUT
import { build } from 'esbuild';
import { fileURLToPath } from 'node:url';

const [file, outfile] = process.argv.slice(2);
await build({
  entryPoints: [file],
  bundle: true,
  format: 'esm',
  platform: 'neutral',
  target: 'es2022',
  external: ['wasi:*', 'svc:*'],
  nodePaths: [fileURLToPath(new URL('../node_modules', import.meta.url))],
  outfile,
  logLevel: 'error',
});
