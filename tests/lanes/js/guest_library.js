// One route for each thing that '@svc/guest' offers.
import { eventStream, json, log, sleep, stream } from '@svc/guest';

// Cleanup that needs turns of the event loop.
async function late(text, ms = 20) {
  await sleep(ms);
  console.log(text);
}

const routes = {
  '/json': () => json({ text: 'ü', list: [1, null] }, { status: 201, headers: { 'x-more': 'yes' } }),
  '/json-none': () => json(undefined),
  '/events': () => eventStream(async (events) => {
    await events.send({ id: 7, event: 'tick', data: { n: 1 }, retry: 500 });
    await events.send('two\nlines');
    await events.send({ data: 'a\r\nb\rc' });
    await events.comment('still\nhere');
    await events.send({ data: null });
    await events.send({ id: 'only' });
    await events.send({ data: '' });
  }, { headers: { 'x-more': 'yes' } }),
  '/keep': () => eventStream(async (events) => {
    await events.send('first');
    await sleep(1500);
    await events.send('last');
  }, { keepAlive: 100 }),
  '/bad-event': () => eventStream(async (events) => {
    await events.send('fine');
    await events.send({ event: 'a\ndata: injected' });
  }),
  '/empty-event': () => eventStream((events) => events.send({})),
  '/failing': () => eventStream(async (events) => {
    await events.send('before');
    throw new Error('failed half-way');
  }),
  '/stream': () => stream(async (write) => {
    await write('text ');
    await write(new Uint8Array([98, 121, 116, 101, 115]));
    await write('');
    await Promise.all([write(' a'), write(' b')]);
    await write(new TextEncoder().encode(' buffer').buffer);
  }),
  '/same': () => {
    const bytes = new TextEncoder().encode('a');
    return stream(async (write) => {
      await write(bytes);
      await write(bytes);
    });
  },
  '/chunk': () => stream((write) => write(7)),
  '/slow': () => stream(async (write) => {
    for (let n = 0; n < 3; n++) {
      await write(`${n}\n`);
      await sleep(100);
    }
  }, { headers: { 'content-type': 'text/csv' } }),
  '/forever': () => eventStream(async (events) => {
    for (let n = 0; ; n++) {
      await events.send({ data: n });
      await sleep(200, events.signal);
    }
  }),
  '/left/pull': () => new Response(new ReadableStream({
    async pull(controller) {
      await sleep(20);
      controller.enqueue(new TextEncoder().encode('a'));
    },
    cancel: (reason) => late(`cancel: ${reason}`),
  })),
  '/left/busy': () => new Response(new ReadableStream({
    pull: (controller) => controller.enqueue(new Uint8Array(65_536)),
    cancel: () => late('cancel'),
  })),
  '/left/idle': (request) => new Response(new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode('a'));
      request.signal.addEventListener('abort', () => late(`abort: ${request.signal.reason}`));
    },
  })),
  '/left/stream': () => stream(async (write, { signal }) => {
    try {
      for (;;) {
        await write('a');
        await sleep(20);
      }
    } finally {
      await late(`finally: ${signal.aborted}`);
    }
  }),
  '/left/waiting': () => stream(async (write, { signal }) => {
    await write('a');
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    await late('resolved');
  }),
  '/left/events': () => eventStream(async (events) => {
    while (!events.signal.aborted) {
      await events.send('a').catch(() => {});
      await sleep(20);
    }
    await late('after the loop');
  }),
  '/left/before': async (request) => {
    await new Promise((resolve) => new Request('http://x/', request).signal.addEventListener('abort', resolve));
    await late('before');
    return new Response('too late');
  },
  '/left/wait': (request, context) => {
    context.waitUntil(late('waited', 200));
    return new Response(new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(65_536)) }));
  },
  '/left/never': () => stream(async (write) => {
    for (;;) {
      await write('a').catch(() => {});
      await sleep(20);
    }
  }),
  '/left/failing': () => new Response(new ReadableStream({
    pull: (controller) => controller.enqueue(new Uint8Array(9)),
    async cancel() {
      await sleep(20);
      throw new Error('no cleanup');
    },
  })),
  '/cancel': async () => {
    let told = 'nothing';
    const body = eventStream(async (events) => {
      events.signal.addEventListener('abort', () => { told = `gone: ${events.signal.reason}`; });
      await events.send('one');
      await events.send('two');
    }).body;
    const reader = body.getReader();
    await reader.read();
    await reader.cancel('enough');
    await sleep(1);
    return new Response(told);
  },
  '/sleep': async () => {
    const stop = new AbortController();
    setTimeout(() => stop.abort(new Error('woken')), 10);
    const woken = await sleep(60_000, stop.signal).catch((error) => error.message);
    const before = await sleep(60_000, AbortSignal.abort('before')).catch((reason) => reason);
    return json([woken, before, await sleep(1, stop.signal).catch((error) => error.message)]);
  },
  '/log': () => {
    const circle = { name: 'circle', big: 12n };
    circle.self = circle;
    log.debug('a debug line');
    log.info('signed in', { user: 'ada', ms: 12, none: undefined, ok: true, list: [1, 'two'] });
    log.warn('two\nlines', { level: 'mine', msg: 'mine too', when: new Date(0) });
    log.error('failed', { error: new TypeError('no'), circle });
    log.error(42, { get bad() { return { toJSON() { throw new Error('hostile'); } }; } });
    return new Response('logged');
  },
};

export default { fetch: (request, _, context) => routes[new URL(request.url).pathname](request, context) };
