// A case: an application whose response has the result of each check as JSON, `{name: {value} | {error}}`.
// `?check=NAME` runs that check alone. A check is an async function of `env`.
const LIMIT = 60_000; // milliseconds for one check

/** Return a rejection for a check that does not settle in time. */
function timeout(controller) {
  return new Promise((_, reject) => {
    const timer = setTimeout(() => reject(new Error(`not settled after ${LIMIT / 1000} s`)), LIMIT);
    controller.signal.addEventListener('abort', () => clearTimeout(timer));
  });
}

async function run(check, env) {
  const controller = new AbortController();
  try {
    const value = await Promise.race([(async () => check(env))(), timeout(controller)]);
    return { value: value === undefined ? null : value };
  } catch (error) {
    return { error: `${error?.name ?? typeof error}: ${error?.message ?? error}` };
  } finally {
    controller.abort();
  }
}

export function checks(table) {
  return {
    async fetch(request, env) {
      const only = new URL(request.url).searchParams.get('check');
      const results = {};
      for (const [name, check] of Object.entries(table)) {
        if (only === null || only === name) results[name] = await run(check, env);
      }
      return new Response(JSON.stringify(results), { headers: { 'content-type': 'application/json' } });
    },
  };
}

/** Return the name of the error that an action throws, or `nothing`. */
export async function thrown(action) {
  try {
    await action();
  } catch (error) {
    return error?.name ?? String(error);
  }
  return 'nothing';
}

/** Throw if two values differ as JSON. */
export function equal(actual, expected) {
  const [left, right] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (left !== right) throw new Error(`${left}, expected ${right}`);
}

export function hex(bytes) {
  return Array.from(bytes instanceof ArrayBuffer ? new Uint8Array(bytes) : bytes, (byte) =>
    byte.toString(16).padStart(2, '0')).join('');
}

export function bytes(text) {
  return new TextEncoder().encode(text);
}

export async function collect(iterable) {
  const values = [];
  for await (const value of iterable) values.push(value);
  return values;
}
