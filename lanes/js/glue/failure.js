// Failures of the user's code: the error is printed to stderr, then the run ends.
import { exit } from 'wasi:cli/exit@0.2.10';
import { define } from './define.js';
import { apply } from './intrinsics.js';
import { svcFlush } from './telemetry.js';

const SVC_FRAMES = 24;
const SVC_CAUSES = 4;
const SVC_OUT_OF_MEMORY = 'Error: out of memory: memory_limit_mb, or the quarter of it that the engine has for objects';
const SVC_MISSING = {
  WebSocket: 'use server-sent events and POST',
  EventSource: 'read the body of fetch()',
  Worker: 'a request has one thread',
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

const { get: svcFrames, set: svcSetStack } = Object.getOwnPropertyDescriptor(Error.prototype, 'stack');
const { captureStackTrace: svcCapture } = Error, { toString: svcTitle } = Error.prototype;

/** Return frames below the message: programs print `stack` alone, and that of this engine has frames only. */
function svcTitled(error, frames) {
  return frames ? `${apply(svcTitle, error, [])}\n${frames}` : frames;
}

Object.defineProperty(Error.prototype, 'stack', {
  get() { return svcTitled(this, apply(svcFrames, this, [])); },
  set: svcSetStack,
});
define(Error, {
  captureStackTrace(target, above = Error.captureStackTrace) {
    apply(svcCapture, Error, [target, above]);
    const frames = target.stack;
    const set = (value) => define(target, { stack: value });
    Object.defineProperty(target, 'stack', { get: () => svcTitled(target, frames), set, configurable: true });
  },
});

/** Return the stack of an error without its message. */
export function svcStack(error) {
  const stack = String(error.stack ?? ''), title = apply(svcTitle, error, []);
  return stack.startsWith(title) ? stack.slice(title.length).trimStart() : stack;
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
    const stack = svcStack(error).split('\n', SVC_FRAMES).join('\n');
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

/** Return a function that calls a callback, and ends the run if it throws: no caller could catch the error. */
export function svcGuarded(callback) {
  return (...values) => {
    try {
      callback(...values);
    } catch (error) {
      svcFail(error);
    }
  };
}

const { queueMicrotask: queue } = globalThis;
globalThis.queueMicrotask = (callback) => queue(typeof callback === 'function' ? svcGuarded(callback) : callback);
