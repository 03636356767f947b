// Calls of the crypto Door (docs/reference/crypto-api.md), and the errors of Web Crypto.
import { ask } from 'svc:doors/call@0.1.0';
import { svcCurrent } from '../current.js';
import { fromJson, newBytes, textBetween, toBase64, toJson } from '../intrinsics.js';

const ERRORS = { 'data-error': 'DataError', 'not-supported': 'NotSupportedError' };

export function svcRefuse(name, message) {
  throw new DOMException(message, name);
}

/** Return a promise of the request, or undefined after it has begun. */
export function untilHosted() {
  return svcCurrent.event ? undefined : new Promise((resolve) => (svcCurrent.waiting ??= []).push(resolve));
}

const MAX_BYTES = 6 << 20;
const DATA_MEMBER = '"data":"', DATA = `{${DATA_MEMBER}`, DATA_END = '"}';

/** Return the text of an operation's answer. Throws DOMException. */
function post(operation, body) {
  const answer = ask('crypto', `/v1/${operation}`, body);
  if (!answer) svcRefuse('OperationError', `crypto: the data of ${operation} is too long`);
  if (answer[0] === 200) return answer[1];
  const { code, detail } = fromJson(answer[1]);
  return svcRefuse(ERRORS[code] ?? 'OperationError', detail);
}

// JSON.stringify and JSON.parse take memory several times the length of a text, so `data` passes by them.

/** Return the body of an operation with bytes as its member `data`. Throws DOMException if they are too many. */
function withData(members, bytes) {
  if (bytes.length > MAX_BYTES) svcRefuse('OperationError', `crypto: the data has ${bytes.length} bytes, more than ${MAX_BYTES}`);
  return `${textBetween(toJson(members), 0, -1)},${DATA_MEMBER}${toBase64(bytes)}${DATA_END}`;
}

/** Return the answer of an operation; bytes in it are base64. Throws DOMException. */
export function callDoor(operation, members, data) {
  return fromJson(post(operation, data ? withData(members, data) : toJson(members)));
}

/** Return the bytes that an operation answers as base64. Throws DOMException. */
export function textFromDoor(operation, members, data) {
  return textBetween(post(operation, data ? withData(members, data) : toJson(members)), DATA.length, -DATA_END.length);
}

/** Return the bytes of a BufferSource as base64. */
export function base64Of(source) {
  return toBase64(bytesOf(source));
}

export function isBufferSource(value) {
  return value instanceof ArrayBuffer || ArrayBuffer.isView(value);
}

/** Return a copy of a BufferSource as bytes. Throws TypeError for other values. */
export function copyOf(source) {
  return newBytes(bytesOf(source));
}

/** Return a view of a BufferSource. Throws TypeError for other values. */
export function bytesOf(source) {
  if (source instanceof Uint8Array) return source;
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  throw new TypeError('crypto: the data is not an ArrayBuffer or a view of one');
}
