// mobx
import { autorun, makeAutoObservable } from 'mobx';
import { checks } from '../checks.js';

export default checks({
  'react': () => { const state = makeAutoObservable({ n: 1, get double() { return this.n * 2; }, add() { this.n += 1; } }); const seen = []; autorun(() => seen.push(state.double)); state.add(); return seen; },
});
