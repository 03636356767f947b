import { sveltekit } from '@sveltejs/kit/vite';

export default {
  plugins: [sveltekit()],
  // svc adds this module when it bundles the server.
  build: { rollupOptions: { external: ['@svc/guest'] } },
  // With source maps, errors of the server name your files and lines. The browser gets none.
  environments: { ssr: { build: { sourcemap: true } }, client: { build: { sourcemap: false } } },
};
