import { sveltekit } from '@sveltejs/kit/vite';

export default {
  plugins: [sveltekit()],
  // svc adds this module when it bundles the server.
  build: { rollupOptions: { external: ['@svc/guest'] } },
};
