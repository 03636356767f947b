// The main module of a deploy build: the user's module is evaluated once, before the snapshot.
import { restoreRandomness } from './prelude.js';
import { check, serve } from './runtime.js';
import app, { entry } from 'svc:app';

check(app, entry);
serve(() => ({ app, entry }), restoreRandomness);
