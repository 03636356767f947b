// `formData()` of requests and responses. The engine's own stores the bytes of a file as decimal numbers.
import { MultipartParser } from '@remix-run/multipart-parser';
import { define } from './define.js';

const MAX_PARTS = 10_000;
const MAX_HEADER_BYTES = 16 * 1024;
const ESCAPES = { '%0A': '\n', '%0D': '\r', '%22': '"' };

function refuse(reason) {
  return new TypeError(`formData(): ${reason}`);
}

// Browsers escape these three characters in names, and no others.
function unescapeName(name) {
  return name.replace(/%(0A|0D|22)/g, (escape) => ESCAPES[escape]);
}

function parameter(type, name) {
  const match = new RegExp(`;\\s*${name}=(?:"([^"]+)"|([^;\\s]+))`, 'i').exec(type);
  return match?.[1] ?? match?.[2];
}

/** Return the number of fields of a URL-encoded text, at most one more than the maximum. */
function countFields(text) {
  let count = 1;
  for (let at = text.indexOf('&'); at >= 0 && count <= MAX_PARTS; at = text.indexOf('&', at + 1)) count++;
  return count;
}

/** Return whether a body has no parts, only the delimiter of its end. */
function isEmpty(bytes, boundary) {
  const end = `--${boundary}--`;
  return new TextDecoder().decode(bytes.subarray(0, end.length + 2)).replace(/^\r\n/, '').startsWith(end);
}

function* multipart(bytes, boundary) {
  if (isEmpty(bytes, boundary)) return;
  const parser = new MultipartParser(boundary, {
    maxHeaderSize: MAX_HEADER_BYTES,
    maxParts: MAX_PARTS,
    maxFileSize: Infinity,
    maxTotalSize: Infinity,
  });
  yield* parser.write(bytes);
  parser.finish();
}

/** Return whether a part may have a file name. Each property of a part parses a header again. */
function mayBeFile({ headers }) {
  return /filename/i.test(headers['content-disposition']);
}

async function formData() {
  const type = this.headers.get('content-type') ?? '';
  const essence = type.split(';', 1)[0].trim().toLowerCase();
  const form = new FormData();
  if (essence === 'application/x-www-form-urlencoded') {
    const text = await this.text();
    if (countFields(text) > MAX_PARTS) throw refuse(`the form has more than ${MAX_PARTS} fields`);
    for (const [name, value] of new URLSearchParams(text)) form.append(name, value);
    return form;
  }
  const boundary = essence === 'multipart/form-data' ? parameter(type, 'boundary') : undefined;
  if (!boundary) throw refuse(`the content type ${JSON.stringify(type)} is no form`);
  const body = new Uint8Array(await this.arrayBuffer());
  try {
    // Too many parts are refused before their headers are parsed, which costs most of the time.
    for (const part of [...multipart(body, boundary)]) {
      const { name } = part, filename = mayBeFile(part) ? part.filename : undefined;
      if (name === undefined) throw refuse('a part has no name');
      const value = filename === undefined
        ? new TextDecoder().decode(part.bytes)
        : new File(part.content, unescapeName(filename), { type: part.mediaType ?? 'application/octet-stream' });
      form.append(unescapeName(name), value);
    }
  } catch (error) {
    throw error instanceof TypeError && error.message.startsWith('formData()') ? error : refuse(error.message);
  }
  return form;
}

/** Return the body that a message gets. The engine writes a form without parts as nothing, which is no form. */
export function svcBody(body) {
  if (!(body instanceof FormData) || !body.keys().next().done) return body;
  const boundary = 'svc-form-without-parts';
  return new Blob([`--${boundary}--\r\n`], { type: `multipart/form-data; boundary=${boundary}` });
}

for (const { prototype } of [Request, Response]) define(prototype, { formData });
