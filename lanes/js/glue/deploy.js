// The main module of a deploy build: the user's module is evaluated once, before the snapshot.
import { svcRestoreRandomness, svcRestoreTime } from './prelude.js';
import { svcCheck, svcServe } from './runtime.js';
import app, { svcEntry } from 'svc:app';

svcRestoreTime();
svcCheck(app, svcEntry);
svcServe(() => ({ app, entry: svcEntry }), svcRestoreRandomness);
