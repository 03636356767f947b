// xstate
import { createActor, createMachine, fromPromise, waitFor } from 'xstate';
import { checks } from '../checks.js';

const machine = createMachine({
  initial: 'idle',
  states: {
    idle: { on: { START: 'work' } },
    work: { invoke: { src: fromPromise(async () => 'tea'), onDone: { target: 'done' } } },
    done: { type: 'final' },
  },
});

export default checks({
  'transitions': async () => {
    const actor = createActor(machine).start();
    const before = actor.getSnapshot().value;
    actor.send({ type: 'START' });
    return [before, (await waitFor(actor, ({ status }) => status === 'done')).value];
  },
  'delays': async () => {
    const actor = createActor(createMachine({ initial: 'a', states: { a: { after: { 5: 'b' } }, b: {} } })).start();
    return (await waitFor(actor, ({ value }) => value === 'b')).value;
  },
});
