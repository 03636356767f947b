// The main module of the dev loader: the user's module comes from the host and is evaluated at each request.
import { source } from 'svc:dev/script@0.1.0';
import { svcCheck, svcServe } from './runtime.js';

svcServe(() => {
  const { default: app, svcEntry: entry } = (0, eval)(source());
  return { app: svcCheck(app, entry), entry };
});
