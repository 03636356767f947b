import { reactRouter } from '@react-router/dev/vite';

export default {
  plugins: [reactRouter()],
  // svc adds this module when it bundles the server.
  build: { rollupOptions: { external: ['@svc/guest'] } },
};
