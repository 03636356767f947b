// @reduxjs/toolkit
import { configureStore, createSlice } from '@reduxjs/toolkit';
import { checks } from '../checks.js';

export default checks({
  'slice': () => { const { actions, reducer } = createSlice({ name: 'n', initialState: { n: 0 }, reducers: { add(state, { payload }) { state.n += payload; } } }); const store = configureStore({ reducer }); store.dispatch(actions.add(2)); return store.getState(); },
});
