// kysely
import { DummyDriver, Kysely, sql, SqliteAdapter, SqliteIntrospector, SqliteQueryCompiler } from 'kysely';
import { checks } from '../checks.js';

const database = new Kysely({
  dialect: {
    createAdapter: () => new SqliteAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (own) => new SqliteIntrospector(own),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  },
});

function compiled(query) {
  const { sql: text, parameters } = query.compile();
  return [text, parameters];
}

export default checks({
  'select': () => compiled(database.selectFrom('users').innerJoin('posts', 'posts.owner', 'users.id').select(['users.id', 'posts.id as post']).where('name', 'like', 'A%').orderBy('users.id', 'desc')),
  'write': () => [
    compiled(database.insertInto('users').values({ name: 'ü', at: 5 }).onConflict((each) => each.doNothing())),
    compiled(database.updateTable('users').set({ name: sql`upper(name)` }).where('id', 'in', [1, 2])),
  ],
  'run': () => database.selectFrom('users').selectAll().execute(),
  'schema': () => compiled(database.schema.createTable('users').addColumn('id', 'integer', (column) => column.primaryKey())),
});
