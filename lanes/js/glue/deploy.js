// The glue of deploy builds, a module of its own: names of the user's code cannot collide with its names.
import { compile } from './define.js';
import { svcRestoreRandomness, svcRestoreTime } from './prelude.js';
import { svcCheck, svcServe } from './runtime.js';

/** Answer requests with the user's default export, whose module was evaluated before the snapshot. */
export function svcHost(app, entry) {
  svcRestoreTime();
  compile(svcCheck(app, entry).fetch, svcRestoreRandomness);
  svcServe(() => {
    svcRestoreRandomness();
    return { app, entry };
  });
}
