// Bundles the server for svc: dist/client has the files for the browser, dist/server/entry.mjs renders pages.
import { fileURLToPath } from 'node:url';

// svc adds this module when it bundles the server.
const external = ['@svc/guest'];
// A version without WebAssembly.
const alias = { 'es-module-lexer': 'es-module-lexer/js' };
// The log of Astro needs no time, which the log of svc has, and so the server no Intl.
const logger = {
  name: 'svc-logger',
  transform: (code, id) =>
    id.endsWith('astro/dist/core/logger/core.js')
      ? code.replace(/new Intl\.DateTimeFormat\([^)]*\)/, '{ format: () => "" }')
      : undefined,
};

export default () => ({
  name: 'svc-adapter',
  hooks: {
    'astro:config:setup': ({ updateConfig }) =>
      updateConfig({
        build: { format: 'file' },
        image: { service: { entrypoint: 'astro/assets/services/noop' } },
        vite: {
          plugins: [logger],
          resolve: { alias },
          ssr: { noExternal: true, external },
          build: { rollupOptions: { external } },
          // With source maps, errors of the server name your files and lines.
          environments: { ssr: { build: { sourcemap: true } } },
        },
      }),
    'astro:config:done': ({ setAdapter }) =>
      setAdapter({
        name: 'svc-adapter',
        serverEntrypoint: fileURLToPath(new URL('./svc-server.mjs', import.meta.url)),
        exports: ['default'],
        supportedAstroFeatures: { serverOutput: 'stable', hybridOutput: 'stable', staticOutput: 'stable' },
      }),
  },
});
