"""Cost of tables for a guest: a js resource on a service does 100 point reads in one request, one by one.

One client asks on one connection, so a request's time is that of the run, of its reads, and of the way there.
"""

import http.client
import tempfile
import time
from pathlib import Path
from statistics import median

from bench.service import DOMAIN, hosted

READS = 100
ROWS = 10_000
REQUESTS = 150
WARM = 20
ROUNDS = 3
_MANIFEST = '[project]\nname = "reads"\n\n[resource.web]\nlane = "js"\npublic = true\n'
_SCHEMA = f"""\
create table users (id integer primary key, name text not null, age integer);
insert into users with recursive n(i) as (select 1 union all select i + 1 from n where i < {ROWS})
  select i, 'user number ' || i, i % 90 from n;
"""
_GUEST = f"""\
import {{ tables }} from '@svc/guest';

export default {{
  async fetch(request) {{
    const first = Number(new URL(request.url).searchParams.get('first'));
    let names = 0;
    for (let i = 0; i < {READS}; i++) {{
      const id = (first + i * 7919) % {ROWS} + 1;
      const [row] = await tables.query('select id, name, age from users where id = $1', id);
      if (row.id === id && row.name === `user number ${{id}}`) names++;
    }}
    return new Response(`${{names}}`);
  }},
}};
"""


def measure() -> tuple[float, float]:
    """Return requests a second, and the median time of a request in milliseconds."""
    with tempfile.TemporaryDirectory(prefix="svc-bench-") as folder, hosted(_project(Path(folder))) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        try:
            _ask(connection, WARM)
            rounds = [_ask(connection, REQUESTS) for _ in range(ROUNDS)]
        finally:
            connection.close()
    return median(len(times) / sum(times) for times in rounds), median(map(median, rounds)) * 1e3


def _project(folder: Path) -> Path:
    (folder / "tables").mkdir()
    (folder / "svc.toml").write_text(_MANIFEST)
    (folder / "index.js").write_text(_GUEST)
    (folder / "tables" / "001-users.sql").write_text(_SCHEMA)
    return folder


def _ask(connection: http.client.HTTPConnection, count: int) -> list[float]:
    """Ask so often; return the seconds that each answer took."""
    times = []
    for number in range(count):
        began = time.perf_counter()
        connection.request("GET", f"/?first={number * 613}", headers={"host": f"web--reads.{DOMAIN}"})
        response = connection.getresponse()
        body = response.read()
        times.append(time.perf_counter() - began)
        if (response.status, body) != (200, b"%d" % READS):
            raise SystemExit(f"a request failed: {response.status} {body[:200]!r}")
    return times
