// raw-body
import getRawBody from 'raw-body';
import { Readable } from 'node:stream';
import { checks } from '../checks.js';

export default checks({
  'read': async () => [await getRawBody(Readable.from([Buffer.from('te'), Buffer.from('a')]), { encoding: 'utf-8' }), await getRawBody(Readable.from([Buffer.from('tea')]), { limit: 2 }).catch(({ type }) => type)],
});
