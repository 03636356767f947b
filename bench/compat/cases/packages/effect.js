// effect
import { Effect, Schema } from 'effect';
import { checks } from '../checks.js';

export default checks({
  'run': () => Effect.runPromise(Effect.gen(function* () { const n = yield* Effect.succeed(2); yield* Effect.sleep('1 millis'); return n * 3; }).pipe(Effect.retry({ times: 2 }))),
  'error': () => Effect.runPromise(Effect.fail('no tea').pipe(Effect.catch((error) => Effect.succeed(`caught ${error}`)))),
  'schema': () => Schema.decodeUnknownSync(Schema.Struct({ n: Schema.NumberFromString }))({ n: '4' }),
});
