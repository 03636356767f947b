// `formData()` of requests and responses. The engine's own stores the bytes of a file as decimal numbers.
import { MultipartParser } from '@remix-run/multipart-parser';
import { svcIsLargeBlob } from './blob.js';
import { svcRead } from './body.js';
import { define } from './define.js';
import { isLack } from './memory.js';

/** The size in bytes from which a part is converted as soon as it is complete. */
const LARGE_PART = 64 * 1024;
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

/** Return the parameters of a header field. Only a quotation mark is escaped: file names may contain backslashes. */
function parametersOf(field) {
  const parameters = {};
  for (const [, name, quoted, token] of field.matchAll(/;\s*([^=;\s]+)=(?:"((?:\\"|[^"])*)"|([^;\s]*))/g)) {
    parameters[name.toLowerCase()] ??= quoted?.replaceAll('\\"', '"') ?? token;
  }
  return parameters;
}

/** Return the number of fields of a URL-encoded text, at most one more than the maximum. */
function countFields(text) {
  let count = 1;
  for (let at = text.indexOf('&'); at >= 0 && count <= MAX_PARTS; at = text.indexOf('&', at + 1)) count++;
  return count;
}

/** A multipart parser that ignores line breaks before the first part, and what follows the last. */
class FormParser {
  #parser;
  #begun = false;

  constructor(boundary) {
    this.#parser = new MultipartParser(boundary, {
      maxHeaderSize: MAX_HEADER_BYTES,
      maxParts: MAX_PARTS,
      maxFileSize: Infinity,
      maxTotalSize: Infinity,
    });
  }

  /** Return the parts that a chunk completes. */
  write(chunk) {
    while (!this.#begun && chunk.length) {
      this.#begun = chunk[0] !== 13 && chunk[0] !== 10;
      if (!this.#begun) chunk = chunk.subarray(1);
    }
    try {
      return [...this.#parser.write(chunk)];
    } catch (error) {
      if (this.#isComplete()) return [];
      throw error;
    }
  }

  #isComplete() {
    try {
      this.#parser.finish();
      return true;
    } catch {
      return false;
    }
  }

  /** Throw an error if the last part did not end. */
  finish() { this.#parser.finish(); }
}

/** Decode UTF-8; in a form, a byte order mark belongs to the text. */
function decoded(bytes) {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
}

/** Return the name and value of a part. */
function entryOf(part) {
  const parameters = parametersOf(part.headers['content-disposition'] ?? ''), { name } = parameters;
  const filename = 'filename*' in parameters ? part.filename : parameters.filename;
  if (name === undefined) throw refuse('a part has no name');
  const value = filename === undefined
    ? decoded(part.bytes)
    : new File(part.content, unescapeName(filename), { type: part.mediaType ?? 'application/octet-stream' });
  return [unescapeName(name), value];
}

/** Return what a function of the parser returns. Its errors become TypeError, except lack of memory. */
function parsed(parse) {
  try {
    return parse();
  } catch (error) {
    const own = isLack(error) || (error instanceof TypeError && error.message.startsWith('formData()'));
    throw own ? error : refuse(error.message);
  }
}

async function multipart(message, boundary) {
  const parser = new FormParser(boundary), parts = [], form = new FormData();
  // The chunks of a large part can be freed at its end. Headers of small parts are parsed after too many are refused.
  await svcRead(message, 'formData', (chunk) => parsed(() => {
    for (const part of parser.write(chunk)) parts.push(part.size < LARGE_PART ? part : entryOf(part));
  }));
  parsed(() => {
    parser.finish();
    for (const part of parts) form.append(...(Array.isArray(part) ? part : entryOf(part)));
  });
  return form;
}

async function formData() {
  const type = this.headers.get('content-type') ?? '';
  const essence = type.split(';', 1)[0].trim().toLowerCase();
  if (essence === 'application/x-www-form-urlencoded') {
    const form = new FormData(), text = decoded(await this.arrayBuffer());
    if (countFields(text) > MAX_PARTS) throw refuse(`the form has more than ${MAX_PARTS} fields`);
    for (const [name, value] of new URLSearchParams(text)) form.append(name, value);
    return form;
  }
  if (essence !== 'multipart/form-data') throw refuse(`the content type ${JSON.stringify(type)} is not that of a form`);
  const { boundary } = parametersOf(type);
  if (!boundary) throw refuse('the content type has no boundary: let the client set the header');
  return multipart(this, boundary);
}

const escapeName = (name) => name.replace(/\r\n?|\n/g, '%0D%0A').replaceAll('"', '%22');

/** Return a form as a multipart blob that shares the bytes of files. */
function encoded(form) {
  const boundary = `svc-form-${crypto.randomUUID()}`, parts = [];
  for (const [name, value] of form) {
    const head = `--${boundary}\r\ncontent-disposition: form-data; name="${escapeName(name)}"`;
    if (typeof value === 'string') {
      parts.push(`${head}\r\n\r\n${value.replace(/\r\n?|\n/g, '\r\n')}\r\n`);
    } else {
      const type = value.type || 'application/octet-stream';
      parts.push(`${head}; filename="${escapeName(value.name)}"\r\ncontent-type: ${type}\r\n\r\n`, value, '\r\n');
    }
  }
  return new Blob([...parts, `--${boundary}--\r\n`], { type: `multipart/form-data; boundary=${boundary}` });
}

/**
 * Return the body that a message gets. The engine writes a form without parts as an empty text, which is not a form, and
 * does not read large blobs.
 */
export function svcBody(body) {
  if (!(body instanceof FormData)) return body;
  const values = [...body.values()];
  return values.length && !values.some(svcIsLargeBlob) ? body : encoded(body);
}

for (const { prototype } of [Request, Response]) define(prototype, { formData });
