"""Cost and latency of the Console: start, keys, Tables, Logs under load, and the engine beside it.

`python -m bench.console [SECONDS]`: how long Logs are left open.
"""

import sys

from bench import console_engine, console_keys, console_logs, console_tables
from bench.processes import write_results


def main(seconds: float) -> None:
    """Measure, print and store the results."""
    keys = console_keys.figures()
    print(
        f"program: first paint after {keys['paint_ms']:.0f} ms, of a key after {keys['key_p95_ms']:.1f} ms"
        f" (p95), RSS {keys['rss']:.0f} MB; an empty application: {keys['roof_paint_ms']:.0f} ms,"
        f" {keys['roof_key_p95_ms']:.1f} ms, {keys['roof_rss']:.0f} MB"
    )
    tables = console_tables.figures()
    print(
        f"tables: first rows after {tables['first_ms']:.0f} ms, others after {tables['jump_ms']:.0f} ms,"
        f" sorted after {tables['sort_ms']:.0f} ms, filtered after {tables['filter_ms']:.0f} ms"
    )
    logs = console_logs.figures(seconds)
    print(
        f"logs: first lines after {logs['first_ms']:.0f} ms, all after {logs['all_ms']:.0f} ms;"
        f" lag p99 {logs['lag_p99']:.1f} ms, at most {logs['lag_max']:.1f} ms (a loop that rests:"
        f" {logs['idle_p99']:.1f} ms); {logs['cpu']:.0%} of a processor, {logs['cpu_screen']:.0%} for the"
        f" screen; RSS {logs['rss_begin']:.0f} to {logs['rss']:.0f} MB in {seconds:.0f} s"
    )
    engine = console_engine.figures()
    print(
        f"engine: alone {engine['alone']:.0f}/s, with the Console {engine['console']:.0f}/s;"
        f" {engine['alone_us']:.0f} and {engine['console_us']:.0f} µs of a processor a request"
    )
    results = {"keys": keys, "tables": tables, "logs": logs, "engine": engine, "seconds": seconds}
    write_results("console", results)
    print(
        f"console paint={keys['paint_ratio']:.2f} key={keys['key_p95_ratio']:.2f}"
        f" memory={keys['rss_ratio']:.2f} of an empty application,"
        f" jump={tables['jump_ms']:.0f} lag_p99={logs['lag_p99']:.1f} rss={logs['rss']:.0f}"
        f" engine={engine['ratio']:.2f}"
    )


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else console_logs.SECONDS)
