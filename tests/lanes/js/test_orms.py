"""Programs of the documentation with packages of npm that use tables, against the real Door."""

import re
from pathlib import Path

import pytest

from tests.lanes import tables
from tests.lanes.js.npm import node_modules
from tests.lanes.js.programs import INDEX
from tests.lanes.js.sources import Sources
from tests.lanes.tables import Guests

pytestmark = pytest.mark.slow
GUIDES = tables.PAGE.parent
PAGE = (GUIDES / "orms.md").read_text("utf-8")
TRANSACTIONS = """\
import { d1 } from '@svc/guest';
import { relations, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core';
import { drizzle as proxy } from 'drizzle-orm/sqlite-proxy';
import { Kysely } from 'kysely';
import { D1Dialect } from 'kysely-d1';

const query = async (text, params) => ({ rows: await d1.prepare(text).bind(...params).raw() });
const causes = (error) => (error ? [String(error.message), ...causes(error.cause)] : []);
const users = sqliteTable('users', { id: integer().primaryKey(), name: text() });
const posts = sqliteTable('posts', { id: integer().primaryKey(), userId: integer('user_id'), title: text() });
const ofUsers = relations(users, ({ many }) => ({ posts: many(posts) }));
const ofPosts = relations(posts, ({ one }) => ({
  user: one(users, { fields: [posts.userId], references: [users.id] }),
}));
const db = drizzle(d1, { schema: { users, posts, ofUsers, ofPosts } });

export default {
  async fetch() {
    const nested = await db.query.users.findMany({ with: { posts: { columns: { title: true } } }, limit: 1 });
    const tables = await new Kysely({ dialect: new D1Dialect({ database: d1 }) }).introspection.getTables();
    const failed = await drizzle(d1).transaction(async (tx) => tx.run(sql`select 1`)).catch(causes);
    const join = sql`select u.id, p.id from users u, users p where u.id = ${1} and p.id = ${2}`;
    const rows = await proxy(query).all(join);
    return Response.json({
      tables: tables.map(({ name, columns }) => [name, ...columns.map((column) => column.name)]),
      failed,
      rows,
      nested,
      count: await db.$count(users),
    });
  },
};
"""


def packages() -> list[str]:
    """Return the packages that the page installs, with their versions."""
    return " ".join(re.findall(r"^npm install (.+)$", PAGE, re.MULTILINE)).split()


def programs() -> dict[str, str]:
    """Return the programs of the page by their names."""
    return {
        **dict(re.findall(r"^```js (\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)),
        "more": TRANSACTIONS,
    }


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Sources:
    """All programs as one resource, so that their component is compiled once."""
    sources = Sources(tmp_path_factory.mktemp("orms ü").resolve(), cache)
    for name, program in programs().items():
        sources.write(f"{name}.js", program)
    (sources.workdir / "node_modules").symlink_to(node_modules(cache, *packages()), target_is_directory=True)
    imports = (f"import {name} from './{name}.js';\n" for name in programs())
    sources.write("index.js", "".join(imports) + INDEX.format(names=", ".join(programs())))
    return sources


@pytest.mark.parametrize("mode", ["dev", pytest.param("deploy", marks=pytest.mark.nightly)])
def test_programs_of_the_documentation_answer(sources: Sources, mode: str, tmp_path: Path) -> None:
    (schema,) = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    guests = Guests(sources.build(mode), "js", tmp_path, sources.cache, schema=schema)
    answers = {
        name: guests.json("/", environment={**tables.ENDPOINT, "PROGRAM": name}) for name in programs()
    }
    assert answers["drizzle"] == [[1, "First", 1, [1, 255]], [2, "Second", 1, [1, 255]]]
    assert answers["kysely"] == [{"title": "First", "name": "Bob"}, {"title": "Second", "name": "Bob"}]
    assert answers["prisma"] == {
        "changes": 1,
        "columnNames": ["name", "picture"],
        "rows": [["Eve", [1, 255]]],
    }
    more = answers["more"]
    assert more["tables"] == [["posts", "id", "user_id", "title"], ["users", "id", "name", "picture"]]
    assert "a batch is one transaction" in " ".join(more["failed"])
    assert more["rows"] == [[1, 2]] and more["count"] == 3
    assert more["nested"] == [{"id": 1, "name": "Ada", "posts": [{"title": "First"}, {"title": "Second"}]}]
    assert guests.rows("select hex(picture) from users where name = 'Eve'") == [("01FF",)]
