// protobufjs
import protobuf from 'protobufjs';
import { checks, hex } from '../checks.js';

const root = protobuf.parse('syntax = "proto3"; message Note { uint32 id = 1; string text = 2; repeated sint64 list = 3; map<string, bool> flags = 4; }').root;
const Note = root.lookupType('Note');

export default checks({
  'encode': () => hex(Note.encode(Note.fromObject({ id: 300, text: 'ü', list: [-1, 5], flags: { a: true } })).finish()),
  'decode': () => Note.toObject(Note.decode(Note.encode({ id: 7, text: 'tea' }).finish()), { longs: String }),
  'verify': () => Note.verify({ id: 'x' }),
});
