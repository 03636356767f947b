// Bundles a part of the glue: node glue.mjs FILE FORMAT OUT
//
// FORMAT is that of esbuild. The bundle is the same wherever svc is installed: without comments, which name paths.
import { build } from 'esbuild';
import { fileURLToPath } from 'node:url';

const [file, format, outfile] = process.argv.slice(2);
await build({
  entryPoints: [file],
  bundle: true,
  format,
  platform: 'neutral',
  target: 'es2022',
  external: ['wasi:*', 'svc:*'],
  nodePaths: [fileURLToPath(new URL('../node_modules', import.meta.url))],
  minifyWhitespace: true,
  outfile,
  logLevel: 'error',
});
