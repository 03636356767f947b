// @trpc/server, @trpc/client
import { createTRPCClient, httpBatchLink } from '@trpc/client';
import { initTRPC, TRPCError } from '@trpc/server';
import { fetchRequestHandler } from '@trpc/server/adapters/fetch';
import { checks } from '../checks.js';

const t = initTRPC.create();
const router = t.router({
  hello: t.procedure.input((value) => String(value)).query(({ input }) => `hello ${input}`),
  add: t.procedure.input((value) => value).mutation(({ input }) => input.a + input.b),
  broken: t.procedure.query(() => {
    throw new TRPCError({ code: 'FORBIDDEN', message: 'no' });
  }),
  count: t.procedure.subscription(async function* () {
    yield 1;
    yield 2;
  }),
});

function handle(input, init) {
  return fetchRequestHandler({ endpoint: '/trpc', req: new Request(input, init), router, createContext: () => ({}) });
}

const client = createTRPCClient({ links: [httpBatchLink({ url: 'http://a.example/trpc', fetch: handle })] });

export default checks({
  'calls': () => Promise.all([client.hello.query('ü'), client.add.mutate({ a: 1, b: 2 })]),
  'error': () => client.broken.query().catch(({ message, data }) => [message, data.code]),
  'caller': () => router.createCaller({}).hello('x'),
  'subscription': async () => {
    const response = await handle('http://a.example/trpc/count', { headers: { accept: 'text/event-stream' } });
    return [response.status, response.headers.get('content-type'), (await response.text()).match(/^data: .*$/gm)];
  },
});
