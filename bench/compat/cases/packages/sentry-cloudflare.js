// @sentry/cloudflare
import * as Sentry from '@sentry/cloudflare';
import { checks } from '../checks.js';

export default checks({
  'handler': async (env) => { const { origin, host } = new URL(env.UPSTREAM); const own = Sentry.withSentry(() => ({ dsn: `http://key@${host}/1`, tracesSampleRate: 0 }), { fetch: () => new Response('tea') }); const context = { waitUntil() {}, passThroughOnException() {} }; return (await own.fetch(new Request(`${origin}/x`), {}, context)).text(); },
});
