// Other functions of the web platform that the engine lacks or gets wrong.
import { cloneWithKeys } from './crypto/key.js';
import { define, defineGetter, defineMissing } from './define.js';
import { LARGE, svcReserve } from './memory.js';

function parse(url, base) {
  try {
    return new URL(url, base);
  } catch {
    return null;
  }
}

defineMissing(URL, { parse, canParse: (url, base) => parse(url, base) !== null });

const { abort: nativeAbort } = AbortSignal;
define(AbortSignal, {
  abort(reason = new DOMException('the operation was aborted', 'AbortError')) { return nativeAbort.call(AbortSignal, reason); },
  any(signals) {
    const controller = new AbortController();
    for (const signal of signals) {
      if (signal.aborted) {
        controller.abort(signal.reason);
        break;
      }
      signal.addEventListener('abort', () => controller.abort(signal.reason), { once: true });
    }
    return controller.signal;
  },
});

define(AbortSignal.prototype, {
  throwIfAborted() {
    if (this.aborted) throw this.reason;
  },
});

const nativeClone = structuredClone;
define(globalThis, {
  structuredClone(value, options) {
    if (value instanceof DOMException) return new DOMException(value.message, value.name);
    try {
      return cloneWithKeys(value, (each) => nativeClone(each, options));
    } catch (error) {
      throw error instanceof TypeError ? new DOMException(error.message, 'DataCloneError') : error;
    }
  },
});

for (const name of ['atob', 'btoa']) {
  const native = globalThis[name];
  define(globalThis, {
    [name](text) {
      const { length } = text ?? '';
      if (length >= LARGE) svcReserve(name, length, 1.5 * length, 1.5 * length);
      try {
        return native(text);
      } catch (error) {
        throw error instanceof RangeError ? new DOMException(`${name}: invalid character`, 'InvalidCharacterError') : error;
      }
    },
  });
}

delete globalThis.location;  // Reading it while a module loads would throw.
defineMissing(globalThis, { navigator: Object.freeze({ userAgent: 'svc' }) });

// The engine's is the time since its start, which a deploy build took.
defineGetter(performance, 'timeOrigin', () => Date.now() - performance.now());

class PerformanceEntry {
  constructor(name, entryType, startTime, duration, detail = null) {
    Object.assign(this, { name, entryType, startTime, duration, detail });
  }
  toJSON() { return { ...this }; }
}
class PerformanceMark extends PerformanceEntry {
  constructor(name, { startTime = performance.now(), detail } = {}) {
    super(String(name), 'mark', startTime, 0, detail);
  }
}
class PerformanceMeasure extends PerformanceEntry {}

const entries = [];

function add(entry) {
  entries.push(entry);
  return entry;
}

/** Return a time in ms: a number as it is, or that of the last mark of a name. */
function timeOf(mark, otherwise) {
  if (mark === undefined) return otherwise;
  if (typeof mark === 'number') return mark;
  const last = entries.findLast(({ name, entryType }) => entryType === 'mark' && name === mark);
  if (!last) throw new DOMException(`performance.measure: no mark has the name ${mark}`, 'SyntaxError');
  return last.startTime;
}

function clear(type, name) {
  const others = entries.filter((entry) => entry.entryType !== type || (name !== undefined && entry.name !== name));
  entries.splice(0, Infinity, ...others);
}

defineMissing(Performance.prototype, {
  mark: (name, options) => add(new PerformanceMark(name, options)),
  measure(name, options = {}, endMark) {
    const { start, end, duration, detail } =
      typeof options === 'string' ? { start: options, end: endMark } : { end: endMark, ...options };
    const until = end === undefined && duration !== undefined ? timeOf(start, 0) + duration : timeOf(end, performance.now());
    const from = start === undefined && duration !== undefined ? until - duration : timeOf(start, 0);
    return add(new PerformanceMeasure(String(name), 'measure', from, until - from, detail));
  },
  getEntries: () => [...entries],
  getEntriesByType: (type) => entries.filter(({ entryType }) => entryType === type),
  getEntriesByName: (name, type) =>
    entries.filter((entry) => entry.name === name && (type === undefined || entry.entryType === type)),
  clearMarks: (name) => clear('mark', name),
  clearMeasures: (name) => clear('measure', name),
});
defineMissing(globalThis, { PerformanceEntry, PerformanceMark, PerformanceMeasure });
