// Runs one file of the web platform tests in a fresh guest.
//
// The request has `{location, harness, scripts, limit}`: the URL of the file, testharness.js, the file with the
// scripts that it names, and milliseconds. The response has `{status, message, tests}`, with
// `[name, status, message]` for each subtest as testharness.js numbers them. URLs are relative to that of the file,
// as those of a page are.
const { parse, stringify } = JSON;
const [evaluate, load, Answer, start, stop] = [eval, fetch, Response, setTimeout, clearTimeout];
const NativeRequest = Request;

export default {
  async fetch(request) {
    const { location, harness, scripts, limit } = parse(await request.text());
    const base = new URL(location), from = (path) => new URL(path, base).href;
    Object.assign(globalThis, {
      location: base,
      GLOBAL: { isWindow: () => false, isWorker: () => true, isShadowRealm: () => false },
      fetch: (input, init) => load(typeof input === 'string' ? from(input) : input, init),
      Request: new Proxy(NativeRequest, {
        construct: (_, [input, ...init]) => new NativeRequest(typeof input === 'string' ? from(input) : input, ...init),
      }),
    });
    evaluate(harness);
    const complete = new Promise((resolve) => globalThis.add_completion_callback((tests, { status, message }) =>
      resolve({ status, message, tests: tests.map((test) => [test.name, test.status, test.message]) })));
    const timer = start(() => globalThis.timeout(), limit);
    try {
      evaluate(scripts);
    } catch (error) {
      return new Answer(stringify({ status: 1, message: String(error), tests: [] }));
    }
    const result = await complete;
    stop(timer);
    return new Answer(stringify(result));
  },
};
