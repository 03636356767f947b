// `process`: the variables of the run, and what packages expect beside them.
import { getEnvironment } from 'wasi:cli/environment@0.2.10';
import { svcCurrent } from './current.js';
import { svcFail } from './failure.js';

// The environment is read once per request, at the first access. It is empty while the module is evaluated, because
// a deploy build evaluates it without any environment.
let variables = {};
let isRead = false;

function loaded() {
  if (!isRead && svcCurrent.request) {
    isRead = true;
    variables = Object.fromEntries(getEnvironment());
  }
  return variables;
}

export const svcEnv = new Proxy({}, {
  get: (_, name) => loaded()[name],
  has: (_, name) => name in loaded(),
  ownKeys: () => Reflect.ownKeys(loaded()),
  getOwnPropertyDescriptor: (_, name) => Object.getOwnPropertyDescriptor(loaded(), name),
  set: (_, name, value) => Reflect.set(loaded(), name, String(value)),
  deleteProperty: (_, name) => Reflect.deleteProperty(loaded(), name),
});

function hrtime([seconds, nanoseconds] = [0, 0]) {
  const now = process.hrtime.bigint() - (BigInt(seconds) * 1_000_000_000n + BigInt(nanoseconds));
  return [Number(now / 1_000_000_000n), Number(now % 1_000_000_000n)];
}
hrtime.bigint = () => BigInt(Math.round(performance.now() * 1e6));

function unsupported(name) {
  return () => {
    throw new Error(`process.${name} is not supported in the js lane`);
  };
}

const listen = () => process;

globalThis.process ??= {
  env: svcEnv,
  argv: [],
  execArgv: [],
  title: 'svc',
  pid: 1,
  platform: 'linux',
  arch: 'wasm32',
  version: '',
  versions: {},
  release: {},
  nextTick: (callback, ...args) => queueMicrotask(() => callback(...args)),
  cwd: () => '/',
  uptime: () => performance.now() / 1000,
  hrtime,
  emitWarning: (warning) => console.warn(warning),
  exit: (code = 0) => svcFail(new Error(`process.exit(${code}) was called`)),
  binding: unsupported('binding'),
  dlopen: unsupported('dlopen'),
  chdir: unsupported('chdir'),
  on: listen, once: listen, off: listen, addListener: listen, removeListener: listen, removeAllListeners: listen,
  emit: () => false,
  listeners: () => [],
  stdout: { isTTY: false, write: (text) => (console.log(String(text).replace(/\n$/, '')), true) },
  stderr: { isTTY: false, write: (text) => (console.error(String(text).replace(/\n$/, '')), true) },
};
globalThis.global ??= globalThis;
