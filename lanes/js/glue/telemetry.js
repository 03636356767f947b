// Sends records to the telemetry Door, in batches and synchronously. fetch() would need turns of the event loop,
// which a program that fails or computes does not reach.
import { ask } from 'svc:doors/call@0.1.0';
import { svcCurrent } from './current.js';

const SVC_FULL = 8 << 10; // maximum size of a batch in characters
const SVC_OLD = 20; // milliseconds

let svcRecords = [];
let svcSize = 0;
let svcTimer;
let svcSent;

// A batch that starts while the response is written extends the run until it is sent.
function svcBegin() {
  svcTimer = setTimeout(svcFlush, SVC_OLD);
  try {
    svcCurrent.event?.waitUntil(new Promise((sent) => (svcSent = sent)));
  } catch {
    // The event has ended, so the program soon ends too.
  }
}

// Sends the batch to the Door. Errors of the Door are ignored.
export function svcFlush() {
  if (!svcRecords.length) return;
  const text = `{"resourceLogs":[{"scopeLogs":[{"logRecords":[${svcRecords.join()}]}]}]}`;
  svcRecords = [];
  svcSize = 0;
  clearTimeout(svcTimer);
  svcSent?.();
  ask('telemetry', '/v1/logs', text);
}

// For compat/features/rejections.js.
globalThis[Symbol.for('svc.wait')] = (promise) => {
  try {
    svcCurrent.event?.waitUntil(promise);
  } catch {
    // The event has ended.
  }
};

// The interface that '@svc/guest' uses when hosted; a record is a LogRecord of OTLP in JSON.
globalThis[Symbol.for('svc.telemetry')] = {
  get open() {
    return Boolean(globalThis.process?.env?.SVC_TELEMETRY_ENDPOINT);
  },
  add(record, urgent) {
    if (!svcRecords.length) svcBegin();
    svcRecords.push(record);
    svcSize += record.length;
    if (urgent || svcSize >= SVC_FULL) svcFlush();
  },
  flush: svcFlush,
};
