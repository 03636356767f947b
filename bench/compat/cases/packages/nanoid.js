// nanoid
import { customAlphabet, nanoid } from 'nanoid';
import { checks } from '../checks.js';

export default checks({
  'identifiers': () => {
    const all = Array.from({ length: 100 }, () => nanoid());
    return [new Set(all).size, all.every((id) => /^[\w-]{21}$/.test(id))];
  },
  'alphabet': () => /^[ab]{8}$/.test(customAlphabet('ab', 8)()),
});
