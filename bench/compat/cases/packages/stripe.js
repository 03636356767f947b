// stripe
import Stripe from 'stripe';
import { checks } from '../checks.js';

function client(env) {
  const { hostname, port } = new URL(env.UPSTREAM);
  return new Stripe('sk_test_1', { host: hostname, port, protocol: 'http', maxNetworkRetries: 0, httpClient: Stripe.createFetchHttpClient() });
}

export default checks({
  'call': async (env) => {
    const { id, name } = await client(env).customers.create({ name: 'Ada', metadata: { a: 'ü' } });
    return [id, name];
  },
  'webhook': async () => {
    const stripe = new Stripe('sk_test_1'), payload = '{"id":"evt_1","object":"event"}';
    const cryptoProvider = Stripe.createSubtleCryptoProvider();
    const header = await stripe.webhooks.generateTestHeaderStringAsync({ payload, secret: 'whsec_1', cryptoProvider });
    return (await stripe.webhooks.constructEventAsync(payload, header, 'whsec_1', undefined, cryptoProvider)).id;
  },
});
