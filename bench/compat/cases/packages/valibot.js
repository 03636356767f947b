// valibot
import * as v from 'valibot';
import { checks } from '../checks.js';

const user = v.object({ name: v.pipe(v.string(), v.trim(), v.minLength(2)), email: v.pipe(v.string(), v.email()), age: v.optional(v.number(), 18) });

export default checks({
  'parse': () => v.parse(user, { name: ' Ada ', email: 'ada@a.example' }),
  'issues': () => v.flatten(v.safeParse(user, { name: 'x', email: 'no', age: '1' }).issues),
  'variant': () => v.safeParse(v.variant('type', [v.object({ type: v.literal('a') }), v.object({ type: v.literal('b'), n: v.number() })]), { type: 'b' }).success,
  'emoji': () => v.safeParse(v.pipe(v.string(), v.emoji()), '🍵').success,
});
