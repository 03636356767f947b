import { reactRouter } from '@react-router/dev/vite';

export default {
  plugins: [reactRouter()],
  // svc adds this module when it bundles the server.
  build: { rollupOptions: { external: ['@svc/guest'] } },
  // With source maps, errors of the server name your files and lines.
  environments: { ssr: { build: { sourcemap: true } } },
};
