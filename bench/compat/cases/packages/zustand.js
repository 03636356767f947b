// zustand
import { createStore } from 'zustand/vanilla';
import { checks } from '../checks.js';

export default checks({
  'store': () => {
    const seen = [], store = createStore((set) => ({ n: 1, add: () => set(({ n }) => ({ n: n + 1 })) }));
    store.subscribe(({ n }) => seen.push(n));
    store.getState().add();
    return [store.getState().n, seen];
  },
});
