"""Rows of the generated page of limits. Values come from the modules that enforce them."""

import annotated_types

from docs import library_limits as library
from doors.crypto import door as crypto
from doors.crypto import keys, operations
from doors.files import door as files_door
from doors.files import store
from doors.jobs import door as jobs
from doors.tables import migrations
from doors.tables.api import file_routes, grid_routes, query
from doors.tables.api import routes as rows
from doors.tables.door import TablesDoor
from doors.tables.files.format import MAX_COLUMNS as MAX_FILE_COLUMNS
from doors.tables.files.format import MAX_RECORD
from doors.tables.grid.grid import MAX_GRIDS_BYTES, MAX_KEY_BYTES
from doors.tables.grid.grid import MAX_TEMPORARY_BYTES as MAX_GRID_BYTES
from doors.tables.guest import protocol, reader, session, writer
from doors.tables.migrations import MAX_FILE_BYTES as MAX_MIGRATION
from doors.tables.migrations import script
from doors.tables.schema.change import MAX_COLUMNS
from doors.tables.sqlite.connections import MAX_BYTES, MAX_SQL, MAX_VALUE, SMALL_BYTES
from doors.telemetry import otlp_json, signals
from doors.telemetry.door import MAX_REQUEST_BYTES
from doors.telemetry.otlp_protobuf import MAX_RECORD_BYTES
from doors.telemetry.signals import MAX_EVENTS, MAX_SPAN_ATTRIBUTE_BYTES, MAX_SPAN_ATTRIBUTES
from engine import measurement, stepwise_json, trace
from engine.alerts import alerts
from engine.certificates.manager import MAX_NAMES, MAX_ORDERS
from engine.control import project_threads, streaming_body
from engine.control.access_watch import MAX_REQUESTS
from engine.control.app import MAX_BODY_BYTES as MAX_API_BODY
from engine.control.auth import accounts, login_throttle, sessions
from engine.control.routes import logs
from engine.control.routes.deployments import MAX_BLOB_BYTES
from engine.deploy import package_store
from engine.deploy.deployment import MAX_DEPLOYMENTS
from engine.dev import env_file
from engine.files import reserve
from engine.files.statement_limit import MAX_WRITTEN_BYTES
from engine.files.statement_memory import MAX_COLLECTED_BYTES
from engine.gateway.app import MAX_BODY, MAX_DEPTH
from engine.gateway.routes import MAX_ADDRESSES
from engine.http.buffered import ADDRESS_BYTES, CONNECTION_BYTES, PROJECT_BYTES, SMALL_PART_BYTES
from engine.http.connection_limits import PER_ADDRESS
from engine.http.exchange import BODY_BYTES
from engine.http.frame_budget import BLOCK_BYTES, FRAMES_PER_SECOND, FRAMES_PER_TURN, MAX_FRAMES
from engine.http.messages import MAX_FIELDS
from engine.http.timeouts import HEADER_SECONDS, IDLE_SECONDS
from engine.jobs.runner import AT_ONCE
from engine.manifest import path_rules
from engine.manifest.egress import MAX_DOMAINS
from engine.manifest.load import MAX_BYTES as MAX_MANIFEST
from engine.manifest.load import MAX_RESOURCES
from engine.manifest.schedules import MAX_SCHEDULES
from engine.manifest.schema import ResourceTable
from engine.otlp import exports
from engine.service.deployer import TIMEOUT_SECONDS as HEALTH_CHECK_SECONDS
from engine.service.secrets import MAX_VALUE_BYTES as MAX_SECRET
from engine.static_files import rules
from engine.timeline.query import READ_SECONDS, WINDOW_BYTES
from engine.timeline.record import MAX_TEXT_CHARS as MAX_LOG_BODY
from engine.timeline.recording import MAX_BODY_BYTES as MAX_RECORDED_BODY
from engine.trace import MAX_CAPTURE_BYTES, MAX_CAPTURED_BYTES
from engine.usage.store import RETENTION_MINUTES
from engine.wasm.compile import compilers
from engine.wasm.execution.buffers import LineSplitter
from engine.wasm.execution.config import COMPONENT_LIMITS, PoolSettings
from engine.wasm.execution.memory_budget import BUDGET_SHARE
from engine.wasm.execution.pool import MEMORY_WAIT_SECONDS
from engine.wasm.execution.run_state import MAX_HELD_BYTES
from engine.wasm.outbound.connections import CONNECT_SECONDS
from engine.wasm.outbound.http import READ_TIMEOUT_NS
from engine.wasm.outbound.messages import MAX_CONCURRENT_REQUESTS as MAX_OUTGOING
from lanes.process import LIMIT_SECS as BUILD_SECONDS
from screens.dialog import MAX_DOWNLOAD_BYTES
from screens.work import picture
from svc_tui.capsule import container, replay
from svc_tui.capsule.collect import MAX_TABLES_BYTES
from svc_tui.commands.options import MAX_BODY_MIB
from svc_tui.console.web import pages

Row = tuple[str, ...]
_DAY_NS = 24 * 3600 * 10**9


def size(count: int) -> str:
    """Return a number of bytes in the largest unit that gives a whole number."""
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 1 << shift and count % (1 << shift) == 0:
            return f"{count >> shift} {unit}"
    return f"{count:,} bytes"


def key(name: str, unit: str) -> tuple[str, str]:
    """Return default and range of a manifest key, as the limits table shows them."""
    field = ResourceTable.model_fields[name]
    low = next(each.ge for each in field.metadata if isinstance(each, annotated_types.Ge))
    high = next(each.le for each in field.metadata if isinstance(each, annotated_types.Le))
    return f"{field.default} {unit}", f"`{name}` in `svc.toml`, {low} to {high}"


_INSTANCES = PoolSettings().instances
_CONCURRENT = f"{_INSTANCES:,}, of one project {_INSTANCES * 7 // 8:,}; 1,024 more wait"
_FRAMES = f"{MAX_FRAMES:,}, then {FRAMES_PER_SECOND} a second"
_SHARED = f"{size(ADDRESS_BYTES)} of a client address, {size(PROJECT_BYTES)} of a project"
_UNSENT = f"{size(CONNECTION_BYTES)} of a connection, {_SHARED}"
_UNREAD = f"{size(BODY_BYTES)} of a body, {size(CONNECTION_BYTES)} of a connection, {_SHARED}"
_UNSENT_BEYOND = f"responses buffer {size(SMALL_PART_BYTES)} each"
_WAITING = f"{writer.MAX_WAITING:,}, {size(writer.MAX_WAITING_BYTES)}"
_RESERVE = f"{reserve.RESERVE_SHARE:.0%}, at most {size(reserve.MAX_RESERVE_BYTES)}"
_RESERVE_BEYOND = f"507 `storage-full` above {size(SMALL_BYTES)}; uploads fail"
_OF_COMPONENT = ", ".join(
    str(COMPONENT_LIMITS[f"max_{each}_per_component"]) for each in ("core_instances", "memories", "tables")
)
_OF_MODULE = ", ".join(str(COMPONENT_LIMITS[f"max_{each}_per_module"]) for each in ("memories", "tables"))
_STATE = ", ".join(size(COMPONENT_LIMITS[f"max_{each}_instance_size"]) for each in ("core", "component"))
_REJECTED = "422 `component-rejected`"
_SHARE = f"{BUDGET_SHARE:.0%} of the machine or its cgroup"
_MEMORY_SHORT = f"requests wait; after {MEMORY_WAIT_SECONDS:.0f} s 503 `overloaded`"
LIMITS: dict[str, list[Row]] = {
    "A request": [
        ("execution time, streamed response included", *key("run_limit_secs", "s"), "504 `run-limit`"),
        ("memory of an instance", *key("memory_limit_mb", "MiB"), "500 `memory-limit`"),
        (
            "objects of a js resource, without bytes of arrays",
            "a quarter of the memory",
            "`memory_limit_mb`",
            "`out of memory` in your code",
        ),
        ("request body", size(MAX_BODY), f"`--max-body`, 1 to {MAX_BODY_MIB} MiB", "413 `body-too-large`"),
        ("concurrent requests, per process", _CONCURRENT, "`--workers`", "503 `overloaded`"),
        ("memory of the service", _SHARE, "`--memory`", _MEMORY_SHORT),
        ("requests at once, per second, memory", "none", "`svc quota`", "429 `quota-exceeded`"),
        (
            "requests of a client address",
            "none",
            f"`rate` in `svc.toml`; {MAX_ADDRESSES:,} addresses are remembered",
            "429 `rate-limited`",
        ),
        ("nested mounts", str(MAX_DEPTH), "", "508 `mount-loop`"),
        (
            "output lines, per stream",
            f"{size(LineSplitter.MAX_BYTES)}, {LineSplitter.MAX_LINES:,} lines, "
            f"{size(LineSplitter.MAX_LINE_CHARS)} a line",
            "",
            "the rest is cut; one line reports it",
        ),
        ("log record, body and attributes each", size(MAX_LOG_BODY), "", "cut"),
        ("header fields that your code sets, per message", size(library.FIELDS), "", "error in your code"),
        ("header fields that your code holds", size(library.HELD_FIELDS), "", "500 `guest-failed`"),
        ("host memory for unread responses and SQL", size(MAX_HELD_BYTES), "", "500 `guest-failed`"),
        ("WASI handles (streams, fields, pollables)", f"{library.HANDLES:,}", "", "500 `guest-failed`"),
        ("memory of handles and held bytes", size(library.MEMORY), "", "500 `guest-failed`"),
        ("pollables in one wait", f"{library.POLLABLES:,}", "", "500 `guest-failed`"),
    ],
    "Calls to other servers": [
        ("concurrent calls of a request", str(MAX_OUTGOING), "", "`connection-limit-reached` in your code"),
        ("requests and responses created and not sent", str(library.UNSENT), "", "500 `guest-failed`"),
        ("calls per second", "none", "`svc quota`", "`connection-limit-reached` in your code"),
        ("connect timeout", f"{CONNECT_SECONDS:.0f} s", "", "error in your code"),
        ("read timeout", f"{READ_TIMEOUT_NS // 10**9} s", "", "error in your code"),
        ("origins", "none", "`egress` in `svc.toml`", "error in your code, with the line to add"),
    ],
    "Connections": [
        ("connections of one client address, per process", str(PER_ADDRESS), "`--per-address`", "closed"),
        ("request head", f"32 KiB, {MAX_FIELDS} fields", "", "431; HTTP/2: closed above twice the fields"),
        ("HTTP/2 header block, compressed", size(BLOCK_BYTES), "", "closed"),
        ("time for a request head", f"{HEADER_SECONDS:.0f} s from its first byte", "", "closed"),
        ("HTTP/2 frames without a stream", _FRAMES, "", "closed"),
        ("HTTP/2 settings in a frame", f"{FRAMES_PER_TURN - 1}", "", "closed"),
        ("unsent bytes of responses, per process", _UNSENT, "", _UNSENT_BEYOND),
        ("unread bytes of request bodies, per process", _UNREAD, "", "the client is throttled"),
        ("keep-alive idle time", f"{IDLE_SECONDS:.0f} s", "", "closed"),
        ("graceful shutdown", "10 s", "`--grace`, 0 to 900 s", "requests are cut"),
        ("worker processes", "1", "`--workers`, 1 to 64", ""),
    ],
    "Tables": [
        ("database of a project", size(MAX_BYTES), "", "507 `storage-full`"),
        ("quota of a project's database", "none", "`svc quota`", "507 `storage-quota`"),
        ("free space of the disk that only small files take", _RESERVE, "", _RESERVE_BEYOND),
        ("request body", size(TablesDoor.max_body), "", "413 `body-too-large`"),
        ("rows of a result", f"{session.MAX_ROWS:,}", "", "413 `too-large`"),
        ("result as JSON", size(session.MAX_RESULT), "", "413 `too-large`"),
        ("one value, one row", size(MAX_VALUE), "", "413 `too-large`"),
        ("one value, in a statement of n calls of functions", "64 MiB / n", "", "413 `too-large`"),
        ("one value, in a statement that also collects values", "16 MiB / n", "", "413 `too-large`"),
        ("one statement", f"{MAX_SQL:,} bytes", "", "413 `too-large`"),
        ("statements of a batch", f"{protocol.MAX_STATEMENTS:,}", "", "413 `too-large`"),
        ("values in a request of more than 64 KiB", f"{protocol.MAX_VALUES:,}", "", "413 `too-large`"),
        ("idempotency key", f"{protocol.MAX_KEY} characters", "", "400 `bad-request`"),
        ("answer to a write with one", size(writer.MAX_ANSWER), "", "413 `too-large`"),
        ("time of a read", f"{reader.TIMEOUT_SECONDS:.0f} s", "", "504 `time-limit`"),
        ("time of a request that writes", f"{writer.TIMEOUT_SECONDS:.0f} s", "", "504 `time-limit`"),
        ("turn of a write while others wait", f"{writer.TURN_SECONDS} s", "", "it runs again after them"),
        ("temporary data of running SQL (Linux)", size(MAX_WRITTEN_BYTES), "", "413 `too-large`"),
        ("memory of values that a statement collects", size(MAX_COLLECTED_BYTES), "", "413 `too-large`"),
        ("requests waiting to write", _WAITING, "", "503 `busy`"),
        ("pattern of `like` and `glob`", "500 bytes", "", "400 `sql-error`"),
        ("columns of a table", str(MAX_COLUMNS), "", "400 `sql-error`"),
        ("depth of an expression", "250", "", "400 `sql-error`"),
        ("terms of a compound `select`", "100", "", "400 `sql-error`"),
        ("arguments of a function", "127", "", "400 `sql-error`"),
        ("parameters of a statement", "32,766", "", "400 `sql-error`"),
        ("names of the columns of rows as arrays", "100,000 characters", "", "413 `too-large`"),
    ],
    "Tables, for owners": [
        ("migration file", size(MAX_MIGRATION), "", "error that names the file"),
        (
            "one statement of a migration, all that are applied at once",
            f"{script.TIMEOUT_SECONDS:.0f} s, {migrations.MAX_SECONDS:.0f} s",
            "",
            "`timeout`",
        ),
        ("statement of `svc tables query`", f"{query.TIMEOUT_SECONDS:.0f} s", "", "`timeout`"),
        ("value in `svc tables query`", size(query.MAX_VALUE_BYTES), "", "`too-large`"),
        (
            "temporary data of a statement that reads, that writes, of a grid (Linux)",
            f"{size(query.MAX_READ_BYTES)}, {size(MAX_WRITTEN_BYTES)}, {size(MAX_GRID_BYTES)}",
            "",
            "`too-large`",
        ),
        ("temporary data of all grids of a project (Linux)", size(MAX_GRIDS_BYTES), "", "`too-large`"),
        ("memory of values that a statement collects", size(query.MAX_COLLECTED_BYTES), "", "`too-large`"),
        ("keys of the rows of a grid window", size(MAX_KEY_BYTES), "", "`too-large`"),
        (
            "statements and changes of rows at once, of a project",
            str(project_threads.PER_PROJECT),
            "",
            "further ones wait",
        ),
        (
            "imports and exports at once, of a project",
            str(file_routes.MAX_TRANSFERS),
            "",
            "503 `unavailable`",
        ),
        ("requests of one user at once, with streams", str(MAX_REQUESTS), "", "503 `unavailable`"),
        (
            "result of `svc tables query`",
            f"{query.MAX_ROWS:,} rows, {size(query.MAX_BYTES)}",
            "`--limit`",
            "the rest is left out; stderr reports it",
        ),
        ("row of an import file", size(MAX_RECORD), "", "error with the line"),
        ("columns of an import file or a pasted range", f"{MAX_FILE_COLUMNS:,}", "", "error"),
        (
            "row changes in one request",
            f"{rows.MAX_CHANGES:,}, {size(rows.MAX_BYTES)}, {rows.MAX_VALUES:,} values",
            "",
            "413 `body-too-large`",
        ),
        ("rows of a pasted range", f"{file_routes.MAX_PREVIEW_ROWS:,}", "", "use an import"),
        (
            "open grids",
            f"{grid_routes.MAX_OPEN_PER_PROJECT} per project, {grid_routes.MAX_OPEN} per service",
            "",
            "503 `unavailable`",
        ),
        ("idle time of a grid", f"{grid_routes.IDLE_SECONDS / 60:.0f} min", "", "closed"),
        ("rows of a grid window", f"{grid_routes.MAX_ROWS:,}", "", "422 `invalid`"),
    ],
    "Files": [
        ("file", size(store.MAX_BYTES), "", "413 `too-large`"),
        ("key", f"{store.MAX_KEY_BYTES} bytes of UTF-8", "", "400 `bad-key`"),
        ("header fields of a file, as JSON", f"{store.MAX_METADATA_BYTES:,} bytes", "", "413 `too-large`"),
        ("metadata of a file, as JSON", f"{store.MAX_METADATA_BYTES:,} bytes", "", "413 `too-large`"),
        ("all files of a project", "none", "`svc quota`, `--files`", "507 `storage-quota`"),
        ("entries of a listing", f"{store.MAX_PAGE:,}", "", "the next ones by `cursor`"),
        (
            "picture that the Console shows",
            f"{size(picture.MAX_BYTES)}, {picture.MAX_PIXELS // 10**6} million pixels",
            "",
            "its size is named",
        ),
        ("validity of a signed URL", f"{files_door.MAX_SECONDS // 86_400} days", "", "400 `bad-request`"),
    ],
    "Cryptography": [
        ("request, with base64", size(crypto.MAX_REQUEST_BYTES), "", "413 `body-too-large`"),
        ("request of a derivation, key or password", size(crypto.QUICK_BYTES), "", "413 `too-large`"),
        ("RSA key", f"{keys.MAX_RSA_BITS:,} bits", "", "400 `data-error`"),
        (
            "generated RSA key",
            f"{keys.MIN_GENERATED_RSA_BITS:,} to {keys.MAX_GENERATED_RSA_BITS:,} bits",
            "",
            "422 `too-expensive`",
        ),
        ("lanes of an Argon2 hash to verify", str(operations.MAX_LANES), "", "422 `too-expensive`"),
        ("memory of scrypt and Argon2", "memory of an instance", "`memory_limit_mb`", "422 `too-expensive`"),
        ("CPU time of an operation", "the rest of the request's", "`run_limit_secs`", "422 `too-expensive`"),
        (
            "operations in processes, of one project",
            "half of the processors; "
            f"{crypto.MAX_WAITING} more wait, {size(crypto.MAX_WAITING_BYTES)} in all",
            "",
            "503 `busy`",
        ),
        (
            "operations in processes, of all projects",
            f"{crypto.PROCESSES_PER_PROCESSOR} per processor",
            "",
            "they wait",
        ),
        ("derived bytes", size(operations.MAX_DERIVED_BYTES), "", "422 `too-expensive`"),
        ("password", size(operations.MAX_PASSWORD_BYTES), "", "413 `too-large`"),
    ],
    "Telemetry": [
        (
            "spans of a request",
            f"{trace.MAX_CALLS} with its other calls, {size(trace.MAX_SPAN_BYTES)} together",
            "",
            "rejected and counted",
        ),
        (
            "attributes of a span",
            f"{MAX_SPAN_ATTRIBUTES}, {size(MAX_SPAN_ATTRIBUTE_BYTES)} together",
            "",
            "dropped and counted",
        ),
        ("events of a span", f"{MAX_EVENTS}", "", "dropped"),
        ("request, compressed and unpacked", size(MAX_REQUEST_BYTES), "", "413"),
        (
            "records, metrics, scopes and resources of a request",
            f"{signals.MAX_PARTS:,}",
            "",
            "413",
        ),
        ("values of a JSON request", f"{otlp_json.MAX_VALUES:,}", "", "400"),
        ("one record in protobuf", size(MAX_RECORD_BYTES), "", "the record is rejected"),
        ("body of a record", size(signals.MAX_BODY_BYTES), "", "cut"),
        (
            "attributes of a record",
            f"{signals.MAX_ATTRIBUTES}, {size(signals.MAX_ATTRIBUTE_BYTES)} together",
            "",
            "dropped and counted",
        ),
        (
            "value and name of an attribute",
            f"{size(signals.MAX_VALUE_BYTES)}, {signals.MAX_KEY_LENGTH} characters",
            "",
            "cut; dropped and counted",
        ),
        ("series of a project's metrics", f"{measurement.MAX_SERIES:,}", "", "dropped, with a warning"),
        ("data points of a request", f"{signals.MAX_POINTS:,}", "", "413"),
        (
            "attributes of a data point",
            f"{signals.MAX_POINT_ATTRIBUTES}, {size(signals.MAX_POINT_ATTRIBUTE_BYTES)} together",
            "",
            "dropped",
        ),
        ("bounds of a histogram", f"{signals.MAX_BOUNDS}", "", "rejected and counted"),
        (
            "records that wait for a collector",
            f"{size(exports.MAX_SERVICE_BYTES)} of `--otlp`, {size(exports.MAX_PROJECT_BYTES)} of a project, "
            f"{size(exports.MAX_PROJECTS_BYTES)} of all projects",
            "",
            "dropped and counted",
        ),
        (
            "attributes of a scope, of a resource",
            f"{signals.MAX_SHARED}, {size(signals.MAX_SHARED_BYTES)} together",
            "",
            "left out",
        ),
    ],
    "Jobs": [
        ("jobs of a project", f"{jobs.MAX_JOBS:,}, of them {jobs.MAX_DEAD:,} dead", "", "429 `jobs-full`"),
        ("body of a job", size(jobs.MAX_BODY), "", "400 `bad-request`"),
        ("path, key of a job", f"{jobs.MAX_PATH:,}, {jobs.MAX_KEY} characters", "", "400 `bad-request`"),
        ("delay of a job", f"{jobs.MAX_DELAY_S // 86400} days", "", "400 `bad-request`"),
        ("tries of a job", f"{jobs.TRIES}", f"`maxTries` up to {jobs.MAX_TRIES}", "dead"),
        ("jobs of a project that run at once, in a process", f"{AT_ONCE}", "", "others wait"),
        ("time that dead jobs stay", f"{jobs.DEAD_MS // 86400000} days", "", "removed"),
    ],
    "Alerts": [
        (
            "time for a receiver to respond",
            f"{alerts.ATTEMPT_SECONDS:.0f} s",
            "",
            f"retried for {alerts.GIVE_UP_SECONDS / 3600:.0f} h, then lost, with a record",
        ),
        ("alerts that wait for a receiver", f"{alerts.MAX_WAITING}", "", "lost, with a record"),
        ("messages about an alert that begins again", "1 an hour", "", "sent later if it still lasts"),
    ],
    "Projects and deployments": [
        ("`svc.toml`, its resources", f"{size(MAX_MANIFEST)}, {MAX_RESOURCES}", "", "error"),
        ("domains of a resource", str(MAX_DOMAINS), "", "error"),
        ("schedules of a project", str(MAX_SCHEDULES), "", "error"),
        ("`.env`", size(env_file.MAX_BYTES), "", "error"),
        ("`_redirects`, `_headers`", f"{size(rules.MAX_BYTES)} each", "", "build error"),
        ("segments of a path of a redirect or header", str(path_rules.MAX_SEGMENTS), "", "build error"),
        ("redirects in a row", str(path_rules.MAX_STEPS), "", "build error"),
        ("one uploaded file", size(MAX_BLOB_BYTES), "", "413 `body-too-large`"),
        (
            "component, its machine code",
            f"{size(compilers.MAX_COMPONENT_BYTES)}, {size(compilers.MAX_CODE_BYTES)}",
            "",
            _REJECTED,
        ),
        (
            "compilation of a component",
            f"{compilers.CPU_SECONDS} s of CPU time, {compilers.WALL_SECONDS // 60} min, "
            f"{size(compilers.MEMORY_BYTES)} of memory",
            "",
            _REJECTED,
        ),
        ("core instances, memories, tables of a component, with svc's own", _OF_COMPONENT, "", _REJECTED),
        ("memories, tables of a core module", _OF_MODULE, "", _REJECTED),
        ("initial elements of a table", f"{COMPONENT_LIMITS['table_elements']:,}", "", _REJECTED),
        ("initial size of a memory", f"{PoolSettings().memory_mib} MiB", "", _REJECTED),
        ("globals, functions and imports of a core instance, of a component", _STATE, "", _REJECTED),
        ("compilations at once, per process", str(compilers.CONCURRENT), "", "further ones wait"),
        ("script, source map, index of a package", size(package_store.MAX_TEXT_BYTES), "", "422 `package`"),
        ("a secret", size(MAX_SECRET), "", "error"),
        ("deployments per project", str(MAX_DEPLOYMENTS), "", "older ones are removed, except the live one"),
        ("host names in a certificate", str(MAX_NAMES), "", "the others use that of the service"),
        ("certificate orders of a project in 24 h", str(MAX_ORDERS), "", "svc waits"),
        ("`build` command", f"{BUILD_SECONDS / 60:.0f} min", "", "stopped"),
        ("health check of a deploy", f"{HEALTH_CHECK_SECONDS:.0f} s", "", "`check-failed`"),
        (
            "recorded body in development",
            size(MAX_RECORDED_BODY),
            "`project.record_bodies`",
            "cut; no replay",
        ),
        (
            "recorded calls to tables and other servers in development: request, response",
            f"{size(MAX_CAPTURE_BYTES)} each, {size(MAX_CAPTURED_BYTES)} per request",
            "`project.record_bodies`",
            "cut or left out; a capsule is incomplete",
        ),
        (
            "capsule, unpacked, tables in it",
            f"{size(container.MAX_FILE_BYTES)}, {size(container.MAX_BYTES)}, {size(MAX_TABLES_BYTES)}",
            "",
            "`too-large`",
        ),
        ("files in a capsule", f"{container.MAX_MEMBERS:,}", "", "`too-large`"),
        ("replay of a capsule", f"{replay.MAX_RUN_SECONDS} s", "", "504 `run-limit`"),
        ("log records", "7 days and 256 MiB per project", "", "the oldest are removed"),
        ("reading of log records, each step", f"{READ_SECONDS:.0f} s", "", "`timeout`"),
        ("log records in one response", f"{logs.MAX_RECORDS:,}, {size(WINDOW_BYTES)}", "", "fewer are sent"),
        ("moments that a backup can be restored to", "7 days", "`--log-days`", "older objects are removed"),
        ("history of a project's rows", "7 days, 1 GiB", "`--log-days`", "the oldest is removed"),
        ("time to go back to a moment", "30 s", "", "`timeout`"),
        ("usage", f"{RETENTION_MINUTES // (24 * 60)} days", "", "the oldest is removed"),
    ],
    "Accounts": [
        ("users", f"{accounts.MAX_USERS:,}", "", "error"),
        (
            "pages with a Console",
            f"{pages.MAX_PAGES}, {pages.MAX_USER_PAGES} of each user",
            "`--no-console`: none",
            "503, in words",
        ),
        ("input of such a page", f"{pages.IDLE_SECONDS / 60:.0f} min without it", "", "the page ends"),
        ("export that such a page downloads", size(MAX_DOWNLOAD_BYTES), "", "error"),
        ("roles of a user", str(accounts.MAX_ROLES), "", "error"),
        ("sessions and tokens of a user", f"{sessions.MAX_PER_USER} each", "", "error"),
        (
            "session",
            f"{sessions.MAX_SESSION_NS // _DAY_NS} days, {sessions.MAX_IDLE_NS // _DAY_NS} without use",
            "",
            "expires",
        ),
        ("token", "90 days", "`--days`, 1 to 365", "expires"),
        ("password", f"{accounts.MIN_LENGTH} to {accounts.MAX_LENGTH:,} characters", "", "error"),
        (
            "failed logins before a delay",
            f"{login_throttle.FREE_FAILURES_PER_USER} per name, "
            f"{login_throttle.FREE_FAILURES_PER_ADDRESS} per address",
            "",
            "429 `too-many-attempts`, up to 60 s",
        ),
        (
            "body of a control API request",
            f"{size(MAX_API_BODY)}, {streaming_body.MAX_VALUES:,} JSON values,"
            f" above {size(stepwise_json.MAX_STEP)} {stepwise_json.MAX_DEPTH} levels",
            "",
            "413 `body-too-large`",
        ),
    ],
}
