// The way of records to the telemetry Door: in batches, and at once. fetch() would need turns of the event loop,
// which a program that fails or computes does not take.
import { Fields, OutgoingBody, OutgoingRequest } from 'wasi:http/types@0.2.10';
import { handle } from 'wasi:http/outgoing-handler@0.2.10';

const SVC_FULL = 8 << 10; // characters that are sent without waiting for more
const SVC_OLD = 20; // milliseconds
const svcEncoder = new TextEncoder();
const svcFields = [['content-type', svcEncoder.encode('application/json')]];

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

function svcPost(endpoint, text) {
  const { protocol, host, pathname } = new URL(endpoint);
  const request = new OutgoingRequest(Fields.fromList(svcFields));
  request.setMethod({ tag: 'post' });
  request.setScheme({ tag: protocol === 'https:' ? 'HTTPS' : 'HTTP' });
  request.setAuthority(host);
  request.setPathWithQuery(`${pathname.replace(/\/$/, '')}/v1/logs`);
  const body = request.body();
  const answer = handle(request, undefined);
  const stream = body.write();
  const data = svcEncoder.encode(text);
  for (let at = 0; at < data.length; at += 4096) stream.blockingWriteAndFlush(data.subarray(at, at + 4096));
  stream[Symbol.dispose]();
  OutgoingBody.finish(body, undefined);
  answer[Symbol.dispose]();
}

// Hands what waits to the Door, which has it when this returns; its answer is not waited for.
export function svcFlush() {
  if (!svcRecords.length) return;
  const text = `{"resourceLogs":[{"scopeLogs":[{"logRecords":[${svcRecords.join()}]}]}]}`;
  svcRecords = [];
  svcSize = 0;
  clearTimeout(svcTimer);
  svcSent?.();
  try {
    svcPost(globalThis.process.env.SVC_TELEMETRY_ENDPOINT, text);
  } catch {
    // That nobody takes it is no reason to fail.
  }
}

export function svcAnswers(event) {
  svcEvent = event;
}

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
