// Events and messages that the engine lacks.
import { defineGetter, defineMissing } from './define.js';

/** Return a class of events whose read-only properties come from its options. */
function eventClass(name, defaults) {
  const values = new WeakMap();
  const type = { [name]: class extends Event {
    constructor(type, options = {}) {
      super(type, options);
      values.set(this, { ...defaults, ...options });
    }
  } }[name];
  for (const property of Object.keys(defaults)) {
    defineGetter(type.prototype, property, function () { return values.get(this)[property]; });
  }
  return type;
}

const ErrorEvent = eventClass('ErrorEvent', { message: '', filename: '', lineno: 0, colno: 0, error: undefined });
const MessageEvent = eventClass('MessageEvent', { data: null, origin: '', lastEventId: '', source: null, ports: [] });
const PromiseRejectionEvent = eventClass('PromiseRejectionEvent', { promise: undefined, reason: undefined });

/** Add an `on…` property that is called as the first listener of an event. */
function handler(target, type) {
  const handlers = new WeakMap();
  Object.defineProperty(target, `on${type}`, {
    get() { return handlers.get(this ?? globalThis)?.handler ?? null; },
    set(value) {
      const owner = this ?? globalThis;
      let entry = handlers.get(owner);
      if (!entry) {
        handlers.set(owner, (entry = { handler: null }));
        owner.addEventListener(type, (event) => entry.handler?.call(owner, event));
      }
      entry.handler = typeof value === 'function' ? value : null;
      if (entry.handler && type === 'message') owner.start?.();
    },
    enumerable: true,
    configurable: true,
  });
}

class MessagePort extends EventTarget {
  #peer = null;
  #queue = [];
  #started = false;

  static pair() {
    const ports = [new this(), new this()];
    ports[0].#peer = ports[1];
    ports[1].#peer = ports[0];
    return ports;
  }

  postMessage(message, options) {
    const transfer = Array.isArray(options) ? options : options?.transfer ?? [];
    const data = structuredClone(message, { transfer });
    this.#peer?.#receive(data);
  }

  start() {
    this.#started = true;
    for (const data of this.#queue.splice(0)) this.#deliver(data);
  }

  close() {
    if (this.#peer) this.#peer.#peer = null;
    this.#peer = null;
  }

  #receive(data) {
    if (this.#started) this.#deliver(data);
    else this.#queue.push(data);
  }

  #deliver(data) {
    // A task of its own: libraries schedule work by messages, and promises run before it.
    setTimeout(() => this.dispatchEvent(new MessageEvent('message', { data })), 0);
  }
}
handler(MessagePort.prototype, 'message');
handler(MessagePort.prototype, 'messageerror');

class MessageChannel {
  constructor() { [this.port1, this.port2] = MessagePort.pair(); }
}

function reportError(error) {
  const event = new ErrorEvent('error', { message: String(error?.message ?? error), error, cancelable: true });
  if (dispatchEvent(event)) console.error(error);
}

defineMissing(globalThis, {
  ErrorEvent, MessageChannel, MessageEvent, MessagePort, PromiseRejectionEvent, reportError,
});
for (const type of ['error', 'rejectionhandled', 'unhandledrejection']) handler(globalThis, type);
