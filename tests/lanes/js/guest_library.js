// One route for each thing that '@svc/guest' offers.
import { eventStream, json, log, sleep, stream } from '@svc/guest';

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
    await sleep(260);
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

export default { fetch: (request) => routes[new URL(request.url).pathname](request) };
