// immer
import { enableMapSet, enablePatches, produce, produceWithPatches } from 'immer';
import { checks, thrown } from '../checks.js';

enableMapSet();
enablePatches();
const base = { list: [{ done: false }], map: new Map([['a', 1]]) };

export default checks({
  'produce': () => {
    const next = produce(base, (draft) => {
      draft.list[0].done = true;
      draft.map.set('b', 2);
    });
    return [base.list[0].done, next.list[0].done, [...next.map], next === base];
  },
  'patches': () => produceWithPatches({ a: 1 }, (draft) => void (draft.a = 2)).slice(1),
  'frozen': () => thrown(() => {
    produce(base, (draft) => void draft.list.push({})).list.push(1);
  }),
});
