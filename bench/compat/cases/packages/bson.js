// bson
import { BSON, ObjectId } from 'bson';
import { checks } from '../checks.js';

export default checks({
  'round trip': () => { const data = BSON.serialize({ a: 'ü', n: 1.5, id: new ObjectId('a'.repeat(24)), when: new Date(5) }); return [data.length, BSON.deserialize(data)]; },
});
