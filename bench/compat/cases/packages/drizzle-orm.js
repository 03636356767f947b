// drizzle-orm
import { and, desc, eq, gt, sql } from 'drizzle-orm';
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core';
import { drizzle } from 'drizzle-orm/sqlite-proxy';
import { checks } from '../checks.js';

const users = sqliteTable('users', { id: integer('id').primaryKey(), name: text('name').notNull(), at: integer('at', { mode: 'timestamp' }) });
const posts = sqliteTable('posts', { id: integer('id').primaryKey(), owner: integer('owner').references(() => users.id), tags: text('tags', { mode: 'json' }) });
const statements = [];
const rows = { users: [[1, 'Ada', 5]], posts: [[7, 1, '["a"]', 1, 'Ada']] };
const database = drizzle(async (query, params, method) => {
  statements.push([query, params, method]);
  return { rows: query.includes('join') ? rows.posts : rows.users };
});

export default checks({
  'select': () => database.select().from(users).where(and(eq(users.name, 'Ada'), gt(users.id, 0))).orderBy(desc(users.id)).limit(2),
  'join': () => database.select({ post: posts, user: { id: users.id, name: users.name } }).from(posts).innerJoin(users, eq(posts.owner, users.id)),
  'write': async () => {
    await database.insert(users).values({ name: 'B', at: new Date(5000) }).onConflictDoNothing().run();
    await database.update(users).set({ name: sql`upper(${users.name})` }).where(eq(users.id, 1)).run();
    return statements;
  },
});
