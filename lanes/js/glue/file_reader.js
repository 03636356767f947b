// FileReader, with which the files for browsers of many packages read a Blob.
import { define, defineMissing } from './define.js';

const STATES = { EMPTY: 0, LOADING: 1, DONE: 2 };
const EVENTS = ['loadstart', 'progress', 'load', 'abort', 'error', 'loadend'];

class ProgressEvent extends Event {
  #options;
  constructor(type, options = {}) {
    super(type, options);
    this.#options = options;
  }
  get lengthComputable() { return this.#options.lengthComputable ?? false; }
  get loaded() { return this.#options.loaded ?? 0; }
  get total() { return this.#options.total ?? 0; }
}

/** Decode a text by its byte order mark or the first label that names an encoding, else as UTF-8. */
function decode(bytes, ...labels) {
  const [first, second] = bytes;
  const marked = first === 0xfe && second === 0xff ? 'utf-16be' : first === 0xff && second === 0xfe ? 'utf-16le' : '';
  for (const label of [marked, ...labels]) {
    try {
      return new TextDecoder(label).decode(bytes);
    } catch {
      // The next label may name an encoding.
    }
  }
  return new TextDecoder().decode(bytes);
}

/** Return a promise of another turn of the event loop: listeners and their promises end between two events. */
function turn() {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

function binary(bytes) {
  let text = '';
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return text;
}

class FileReader extends EventTarget {
  #state = STATES.EMPTY;
  #result = null;
  #error = null;
  #handlers = new Map();
  #reads = 0;

  get readyState() { return this.#state; }
  get result() { return this.#result; }
  get error() { return this.#error; }

  readAsArrayBuffer(blob) { this.#start(blob, ({ buffer }) => buffer); }
  readAsBinaryString(blob) { this.#start(blob, binary); }
  readAsDataURL(blob) {
    this.#start(blob, (bytes) => `data:${blob.type || 'application/octet-stream'};base64,${btoa(binary(bytes))}`);
  }
  readAsText(blob, label = undefined) {
    this.#start(blob, (bytes) => decode(bytes, label ?? '', /;\s*charset="?([^";\s]+)/i.exec(blob.type)?.[1] ?? ''));
  }

  abort() {
    this.#result = null;
    if (this.#state === STATES.LOADING) {
      this.#reads++;
      this.#error = new DOMException('the read was aborted', 'AbortError');
      this.#state = STATES.DONE;
      this.#dispatch('abort', 0, 0);
      if (this.#state !== STATES.LOADING) this.#dispatch('loadend', 0, 0);
    }
  }

  #start(blob, convert) {
    if (!(blob instanceof Blob)) throw new TypeError('FileReader: the argument is not a Blob');
    if (this.#state === STATES.LOADING) throw new DOMException('FileReader: a read is in progress', 'InvalidStateError');
    this.#state = STATES.LOADING;
    this.#result = this.#error = null;
    this.#read(blob, convert, ++this.#reads);
  }

  async #read(blob, convert, read) {
    await turn();
    if (read !== this.#reads) return;
    this.#dispatch('loadstart', 0, blob.size);
    const bytes = new Uint8Array(await blob.arrayBuffer());
    await turn();
    if (read !== this.#reads) return;
    if (blob.size) this.#dispatch('progress', blob.size, blob.size);
    await turn();
    if (read !== this.#reads) return;
    this.#result = convert(bytes);
    this.#state = STATES.DONE;
    this.#dispatch('load', blob.size, blob.size);
    await turn();
    // A listener may have begun another read.
    if (read === this.#reads) this.#dispatch('loadend', blob.size, blob.size);
  }

  #dispatch(type, loaded, total) {
    this.dispatchEvent(new ProgressEvent(type, { lengthComputable: true, loaded, total }));
  }

  static {
    for (const type of EVENTS) {
      Object.defineProperty(FileReader.prototype, `on${type}`, {
        get() { return this.#handlers.get(type)?.handler ?? null; },
        set(value) {
          let entry = this.#handlers.get(type);
          if (!entry) {
            this.#handlers.set(type, (entry = {}));
            this.addEventListener(type, (event) => entry.handler?.call(this, event));
          }
          entry.handler = typeof value === 'function' ? value : null;
        },
        enumerable: true,
        configurable: true,
      });
    }
    for (const target of [FileReader, FileReader.prototype]) define(target, STATES);
  }
}

defineMissing(globalThis, { FileReader, ProgressEvent });
