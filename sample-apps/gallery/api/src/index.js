// Uploads go from the browser to a signed URL, and downloads from the host to the browser. This code decides on both,
// and adds a job that makes a smaller image.
import { files, jobs, json, tables } from '@svc/guest';

const MAX_BYTES = 200e6;
const IMAGES = ['image/gif', 'image/jpeg', 'image/png', 'image/webp'];
const TYPES = [...IMAGES, 'video/mp4', 'video/webm'];
const PAGE = 60;
const original = (id) => `originals/${id}`;
const thumb = (id) => `thumbs/${id}`;
const problem = (status, title) => json({ title }, { status });

async function list(before) {
  const items = await tables.query`
    select id, name, type, size, state, width, height, error, added_at from items
    where id < ${before} and state <> 'uploading' order by id desc limit ${PAGE}`;
  return json({ items, more: items.length === PAGE });
}

// First, the page asks for a place to upload to. The URL permits one upload of this type, for an hour.
async function begin(request) {
  const body = await request.json().catch(() => null);
  if (!body) return problem(400, 'The body is not JSON');
  const { name, type, size } = body;
  if (!TYPES.includes(type)) return problem(415, `${type || 'This type'} is not one of ${TYPES.join(', ')}`);
  if (!(Number.isInteger(size) && size > 0 && size <= MAX_BYTES)) return problem(413, 'A file has 1 byte to 200 MB');
  const { lastId: id } = await tables.exec`
    insert into items (name, type, size) values (${String(name).slice(0, 200) || 'file'}, ${type}, ${size})`;
  const { url } = await files.sign(original(id), { method: 'PUT', expires: '1h', maxBytes: size, type, once: true });
  return json({ id, url }, { status: 201 });
}

// Then it says that the upload is complete. The job exists exactly if the row has its new state.
async function complete(id) {
  const [file, [item]] = await Promise.all([
    files.head(original(id)),
    tables.query`select type from items where id = ${id} and state in ('uploading', 'failed')`,
  ]);
  if (!file || !item) return problem(409, 'There is no new upload');
  const isImage = IMAGES.includes(item.type);
  const state = isImage ? 'resizing' : 'ready';
  const update = tables.sql`update items set state = ${state}, size = ${file.size}, error = null where id = ${id}`;
  const job = jobs.sql(`/resize/${id}`, null, { resource: 'resize', key: `resize ${id}`, maxTries: 4 });
  await tables.batch(isImage ? [update, job] : [update]);
  return json({ id, state });
}

async function remove(id) {
  const { changes } = await tables.exec`delete from items where id = ${id}`;
  await files.delete([original(id), thumb(id)]);
  return changes ? new Response(null, { status: 204 }) : problem(404, 'No such item');
}

// The host sends the bytes, or the range that a player asks for. The bytes of an id never change.
function send(key) {
  return files.response(key, { headers: { 'cache-control': 'public, max-age=86400, immutable' } });
}

async function write(request, id, env) {
  if (!env.UPLOAD_PASSWORD) return problem(503, 'UPLOAD_PASSWORD has no value: README.md has the command');
  if (request.headers.get('authorization') !== `Bearer ${env.UPLOAD_PASSWORD}`) return problem(401, 'Wrong password');
  if (request.method === 'POST') return id ? complete(id) : begin(request);
  return request.method === 'DELETE' && id ? remove(id) : problem(405, 'Use POST or DELETE');
}

export default {
  async fetch(request, env) {
    const { pathname, searchParams } = new URL(request.url);
    const [, digits, form] = pathname.match(/^\/api\/items(?:\/(\d{1,15}))?(?:\/(original|thumb))?$/) ?? [null, null, 'none'];
    const id = Number(digits);
    if (form === 'none' || (form && !id)) return problem(404, 'Not found');
    if (request.method !== 'GET' && request.method !== 'HEAD') return write(request, id, env);
    if (form) return send(form === 'thumb' ? thumb(id) : original(id));
    return list(Number(searchParams.get('before')) || Number.MAX_SAFE_INTEGER);
  },

  // Every night: remove uploads that were begun a day ago and never completed.
  async scheduled({ scheduledTime }) {
    const { rows } = await tables.exec`
      delete from items where state = 'uploading' and added_at < ${new Date(scheduledTime - 24 * 3_600_000)}
      returning id`;
    if (rows.length) await files.delete(rows.map(({ id }) => original(id)));
  },
};
