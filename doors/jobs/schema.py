"""The tables of jobs in the database of a project.

Guests insert into a view, in any transaction. Its trigger checks the job and fills in the rest. Two triggers
count the rows, so that the limit costs no scan. Names of all begin with `_svc_jobs`.
"""

from engine.door import DoorTables

MAX_JOBS = 100_000
"""Maximum jobs of a project, dead ones included."""
MAX_BODY = 1 << 20
MAX_PATH = 2048
MAX_NAME = 100
MAX_KEY = 255
"""Maximum bytes of a body, and characters of a path, of the name of a resource and of a key."""
MAX_DELAY_S = 366 * 86400
MAX_TRIES = 100
TRIES = 8
FULL = f"jobs-full: the project has {MAX_JOBS:,} jobs"
FULL_HINT = "Add more when some have run, or remove some: svc jobs remove --dead, or --waiting."
NOW = "CAST(unixepoch('subsec') * 1000 AS INTEGER)"
WAITING = "state = 'waiting'"
LIVE = "state <> 'dead'"
COUNT = "_svc_jobs_count"

# Of a text with NUL, `length` and GLOB see what is before it.
_CHECKS = {
    "id is not 16 hexadecimal digits": (
        "typeof(NEW.id) NOT IN ('text', 'null') OR octet_length(NEW.id) <> 16 OR NEW.id GLOB '*[^0-9a-f]*'"
    ),
    "path is not a text that begins with /": "typeof(NEW.path) <> 'text' OR substr(NEW.path, 1, 1) <> '/'",
    f"path has more than {MAX_PATH} characters, or characters that a URL cannot have": (
        f"octet_length(NEW.path) > {MAX_PATH} OR length(NEW.path) <> octet_length(NEW.path)"
        " OR NEW.path GLOB '*[^!\"$-~]*'"
    ),
    "resource is not the name of a resource": (
        f"typeof(NEW.resource) <> 'text' OR octet_length(NEW.resource) NOT BETWEEN 1 AND {MAX_NAME}"
        " OR length(NEW.resource) <> octet_length(NEW.resource) OR NEW.resource GLOB '*[^a-z0-9-]*'"
    ),
    "body is neither a text nor a blob": "typeof(NEW.body) NOT IN ('text', 'blob', 'null')",
    f"body has more than {MAX_BODY:,} bytes": f"octet_length(NEW.body) > {MAX_BODY}",
    f"delay_s is not a number from 0 to {MAX_DELAY_S:,}": (
        "typeof(NEW.delay_s) NOT IN ('integer', 'real', 'null')"
        f" OR NEW.delay_s NOT BETWEEN 0 AND {MAX_DELAY_S}"
    ),
    f"key is not a text of 1 to {MAX_KEY} characters": (
        f"typeof(NEW.key) NOT IN ('text', 'null') OR length(NEW.key) NOT BETWEEN 1 AND {MAX_KEY}"
        f" OR octet_length(NEW.key) > 4 * {MAX_KEY}"
    ),
    f"max_tries is not a whole number from 1 to {MAX_TRIES}": (
        f"typeof(NEW.max_tries) NOT IN ('integer', 'null') OR NEW.max_tries NOT BETWEEN 1 AND {MAX_TRIES}"
    ),
}
_CASES = "\n".join(f"WHEN {check} THEN RAISE(ABORT, 'job: {text}')" for text, check in _CHECKS.items())

JOBS = DoorTables(
    prefix="_svc_jobs",
    first="_svc_jobs",
    inlet="_svc_jobs_add",
    create=(
        """CREATE TABLE _svc_jobs (
            n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, resource TEXT NOT NULL, path TEXT NOT NULL,
            key TEXT, state TEXT NOT NULL DEFAULT 'waiting', added INTEGER NOT NULL, due INTEGER NOT NULL,
            tries INTEGER NOT NULL DEFAULT 0, max_tries INTEGER NOT NULL, owner TEXT NOT NULL DEFAULT '',
            request TEXT NOT NULL DEFAULT '', error TEXT NOT NULL DEFAULT '', body BLOB NOT NULL
        )""",
        f"CREATE INDEX _svc_jobs_due ON _svc_jobs (due) WHERE {LIVE}",
        "CREATE INDEX _svc_jobs_state ON _svc_jobs (state, due)",
        f"CREATE UNIQUE INDEX _svc_jobs_key ON _svc_jobs (key) WHERE {WAITING}",
        f"CREATE TABLE {COUNT} (one INTEGER PRIMARY KEY, n INTEGER NOT NULL)",
        f"INSERT INTO {COUNT} VALUES (1, 0)",
        f"""CREATE TRIGGER _svc_jobs_added AFTER INSERT ON _svc_jobs BEGIN
            UPDATE {COUNT} SET n = n + 1;
            SELECT RAISE(ABORT, '{FULL}. {FULL_HINT.rstrip(".")}') FROM {COUNT} WHERE n > {MAX_JOBS};
        END""",
        f"""CREATE TRIGGER _svc_jobs_removed AFTER DELETE ON _svc_jobs BEGIN
            UPDATE {COUNT} SET n = n - 1;
        END""",
        """CREATE VIEW _svc_jobs_add AS SELECT '' AS id, '' AS resource, '' AS path, NULL AS body,
            0 AS delay_s, NULL AS key, 0 AS max_tries""",
        f"""CREATE TRIGGER _svc_jobs_adding INSTEAD OF INSERT ON _svc_jobs_add BEGIN
            SELECT CASE {_CASES} END;
            INSERT INTO _svc_jobs (id, resource, path, key, added, due, max_tries, body)
            SELECT COALESCE(NEW.id, lower(hex(randomblob(8)))), NEW.resource, NEW.path, NEW.key, {NOW},
                {NOW} + CAST(COALESCE(NEW.delay_s, 0) * 1000 AS INTEGER), COALESCE(NEW.max_tries, {TRIES}),
                COALESCE(NEW.body, x'')
            WHERE NEW.key IS NULL
                OR NOT EXISTS (SELECT 1 FROM _svc_jobs WHERE key = NEW.key AND {WAITING});
        END""",
    ),
)
MEMBERS = ("resource", "path", "body", "delay_s", "key", "max_tries")
GUEST_ADD = f"INSERT INTO _svc_jobs_add ({', '.join(MEMBERS)}) VALUES ($1, $2, $3, $4, $5, $6)"
"""The statement of the guest libraries, into which `make docs` writes it."""
ADD = f"INSERT INTO _svc_jobs_add ({', '.join(MEMBERS)}, id) VALUES ($1, $2, $3, $4, $5, $6, $7)"
