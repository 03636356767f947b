// Failures of the user's code: the error is printed to stderr, then the run ends.
import { exit } from 'wasi:cli/exit@0.2.10';
import { svcFlush } from './telemetry.js';

const SVC_FRAMES = 24;
const SVC_CAUSES = 4;
const SVC_DEPTH = 1000;
const SVC_SHALLOW = 3;
const SVC_OBJECTS = 10_000;
/** Characters that are printed of a text, a little more than the host takes of a request's output. */
const SVC_OUTPUT = (1 << 20) + 1;
const SVC_CONSOLE = [
  'assert', 'debug', 'dir', 'dirxml', 'error', 'group', 'groupCollapsed', 'info', 'log', 'table', 'timeLog', 'trace', 'warn',
];
const SVC_OUT_OF_MEMORY = 'Error: out of memory: memory_limit_mb, or the quarter of it that the engine has for objects';
const SVC_MISSING = {
  WebAssembly: 'a component cannot compile code',
  WebSocket: 'use server-sent events and POST',
  EventSource: 'read the body of fetch()',
  Worker: 'a request has one thread',
  caches: 'store data in tables',
  require: 'use import',
  window: 'use globalThis',
  document: 'there is no page here',
};

function svcShown(value) {
  try {
    return typeof value === 'object' ? JSON.stringify(value) : String(value);
  } catch {
    return 'that cannot be shown';
  }
}

/** Return a text whose further lines are indented, as those of a stack are. */
function svcIndented(text) {
  return text.replaceAll('\n', '\n  ');
}

/** Return an error with its stack and, indented, its causes. The first line is its message. */
export function svcDescribe(error, depth = 0) {
  if (!(error instanceof Error)) {
    return error === 'out of memory' ? SVC_OUT_OF_MEMORY : svcIndented(`Uncaught ${typeof error}: ${svcShown(error)}`);
  }
  try {
    const missing = /^(\w+) is not defined$/.exec(error.message)?.[1];
    const hint = Object.hasOwn(SVC_MISSING, missing ?? '') ? ` (the js lane does not have it: ${SVC_MISSING[missing]})` : '';
    const stack = (error.stack ?? '').split('\n', SVC_FRAMES).join('\n');
    const causes = error.cause === undefined ? error.errors ?? [] : [error.cause];
    const shown = depth < SVC_CAUSES ? Array.from(causes).slice(0, SVC_CAUSES) : [];
    const cause = shown.map((one) => `\n  caused by ${svcDescribe(one, depth + 1)}`).join('');
    return `${svcIndented(`${error.name}: ${error.message}${hint}`)}\n${stack}`.trimEnd() + cause;
  } catch {
    return 'Error: an error that cannot be shown';
  }
}

export const svcPrint = console.error.bind(console);

/** Print an error and exit. The host then sends an error response, or cuts the connection of a response that began. */
export function svcFail(error) {
  svcFlush();
  svcPrint(svcDescribe(error));
  exit({ tag: 'err' });
}

/** Return the values inside an object that the engine prints. */
function inside(value) {
  if (value instanceof Map) return [...value].flat();
  if (value instanceof Set || Array.isArray(value)) return value;
  const values = [];
  for (const key in value) values.push(value[key]);
  return values;
}

function countOf(value) {
  if (Array.isArray(value)) return value.length;
  return value instanceof Map || value instanceof Set ? value.size : 0;
}

/**
 * Return why the engine cannot print a value, or an empty string. It visits each object once, except without `seen`.
 *
 * Deep nesting would exhaust the engine's stack, and much text its memory. It compares each object with all others.
 */
function excess(value, levels, budget, seen) {
  if (typeof value === 'string') budget.characters -= value.length;
  if (typeof value !== 'object' || value === null) budget.characters--;
  else if (ArrayBuffer.isView(value)) budget.characters -= value.length ?? 0;
  else if (!seen?.has(value)) {
    if (!levels) return `more than ${SVC_DEPTH} levels`;
    seen?.add(value);
    budget.objects--;
    if (countOf(value) > budget.characters) return `more than ${SVC_OUTPUT} values or characters`;
    for (const each of inside(value)) {
      const found = excess(each, levels - 1, budget, seen);
      if (found) return found;
    }
  }
  if (budget.characters < 0) return `more than ${SVC_OUTPUT} values or characters`;
  return budget.objects < 0 ? `more than ${SVC_OBJECTS} objects` : '';
}

function printable(value) {
  if (typeof value === 'string') return value.length > SVC_OUTPUT ? value.slice(0, SVC_OUTPUT) : value;
  if (typeof value !== 'object') return value;
  if (value instanceof Error) return svcDescribe(value);
  const budget = () => ({ characters: SVC_OUTPUT, objects: SVC_OBJECTS });
  try {
    const found = excess(value, SVC_SHALLOW, budget()) && excess(value, SVC_DEPTH, budget(), new Set());
    return found ? `[an object with ${found}]` : value;
  } catch {
    return value; // A getter that throws does so when it is printed, too.
  }
}

// The engine's console shows an error as a constructor call, without its stack.
for (const name of SVC_CONSOLE) {
  const print = console[name].bind(console);
  console[name] = (...values) => print(...values.map(printable));
}

// An error of a callback has no caller that could catch it.
for (const name of ['setTimeout', 'setInterval', 'queueMicrotask']) {
  const schedule = globalThis[name];
  globalThis[name] = (callback, ...rest) => schedule(typeof callback !== 'function' ? callback : (...values) => {
    try {
      callback(...values);
    } catch (error) {
      svcFail(error);
    }
  }, ...rest);
}
