// One route for each thing that a guest may do to its host.
const text = new TextEncoder();
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
let counter = 0;

function ticks(count, ms) {
  return new ReadableStream({
    async start(controller) {
      for (let i = 0; i < count; i++) {
        if (i) await wait(ms);
        controller.enqueue(text.encode(`data: ${i}\n\n`));
      }
      controller.close();
    },
  });
}

const routes = {
  '/hello': () => new Response('hello\n'),
  '/announced': () => new Response(null, { headers: { 'content-length': '5' } }),
  '/empty': () => new Response(null),
  '/count': () => new Response(String(++counter)),
  '/method': (request) => new Response(`${request.method} ${request.url}`),
  '/headers': (request) => Response.json([...request.headers]),
  '/env': (_request, env) => Response.json(env),
  '/echo': (request) => new Response(request.body),
  '/length': async (request) => new Response(String((await request.arrayBuffer()).byteLength)),
  '/ticks': () => new Response(ticks(4, 100), { headers: { 'content-type': 'text/event-stream' } }),
  '/forever': () => new Response(ticks(1e9, 50), { headers: { 'content-type': 'text/event-stream' } }),
  '/later': () => wait(20).then(() => new Response(ticks(1e9, 50))),
  '/big': () => {
    let left = 300;
    return new Response(new ReadableStream({
      pull(controller) {
        if (left-- > 0) controller.enqueue(new Uint8Array(10000).fill(65));
        else controller.close();
      },
    }));
  },
  '/log': () => {
    console.log('to stdout');
    console.error('to stderr');
    return new Response('logged');
  },
  '/throw': () => { throw new Error('thrown on purpose'); },
  '/reject': () => Promise.reject(new TypeError('rejected on purpose')),
  '/nothing': () => 42,
  '/late': () => new Response(new ReadableStream({
    async start(controller) {
      controller.enqueue(text.encode('first\n'));
      await wait(50);
      throw new Error('failed half-way');
    },
  })),
  '/loop': () => { for (;;); },
  '/sleep': () => wait(1e7).then(() => new Response('never')),
  '/burn': () => {
    const until = performance.now() + 200;
    while (performance.now() < until);
    return new Response('burnt');
  },
  '/allocate': () => { const kept = []; for (;;) kept.push(new Uint8Array(1 << 20).fill(1)); },
  '/recurse': () => { const f = () => f() + 1; return new Response(String(f())); },
  '/fetch': async (request) => {
    const answer = await fetch(new URL(request.url).searchParams.get('url'));
    return new Response(`${answer.status} ${await answer.text()}`);
  },
  '/fetches': async (request) => {
    const url = new URL(request.url).searchParams.get('url');
    return new Response((await Promise.all([1, 2, 3, 4, 5].map(async () => (await fetch(url)).text()))).join(''));
  },
  '/post': async (request) => {
    const url = new URL(request.url).searchParams.get('url');
    const answer = await fetch(url, { method: 'POST', body: 'sent by a guest', headers: { 'x-mine': 'yes' } });
    return new Response(await answer.text());
  },
};

export default {
  async fetch(request, env) {
    const route = routes[new URL(request.url).pathname];
    return route ? route(request, env) : new Response('no such route\n', { status: 404 });
  },
};
