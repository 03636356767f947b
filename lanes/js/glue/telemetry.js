// The way of records to the telemetry Door: in batches, and at once. fetch() would need turns of the event loop,
// which a program that fails or computes does not take.
import { ask } from 'svc:doors/call@0.1.0';

const SVC_FULL = 8 << 10; // characters that are sent without waiting for more
const SVC_OLD = 20; // milliseconds

let svcEvent = null;
let svcRecords = [];
let svcSize = 0;
let svcTimer;
let svcSent;

// A batch that is begun while the response is written keeps the run going until it is sent.
function svcBegin() {
  svcTimer = setTimeout(svcFlush, SVC_OLD);
  try {
    svcEvent?.waitUntil(new Promise((sent) => (svcSent = sent)));
  } catch {
    // The event is over; so will be the program, soon.
  }
}

// Hands what waits to the Door. That it does not take it is no reason to fail.
export function svcFlush() {
  if (!svcRecords.length) return;
  const text = `{"resourceLogs":[{"scopeLogs":[{"logRecords":[${svcRecords.join()}]}]}]}`;
  svcRecords = [];
  svcSize = 0;
  clearTimeout(svcTimer);
  svcSent?.();
  ask('telemetry', '/v1/logs', text);
}

export function svcAnswers(event) {
  svcEvent = event;
}

// For compat/features/rejections.js.
globalThis[Symbol.for('svc.wait')] = (promise) => {
  try {
    svcEvent?.waitUntil(promise);
  } catch {
    // The event is over.
  }
};

// What '@svc/guest' finds where it is hosted; a record is a LogRecord of OTLP in JSON.
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
