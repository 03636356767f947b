"""How long after a save the first changed response comes, while 100 requests a second run.

20 saves each of a static file and of the js Resource of `sample-apps/pulse`. A save replaces the file, as
editors do; from then on one keep-alive connection asks until the answer has changed.
"""

import http.client
import shutil
import sys
import tempfile
import time
from pathlib import Path

from bench.processes import ROOT, loaded, start_load, svc_dev, write_results

SAVES = 20
RATE = 100
PAUSE = 0.35
GIVE_UP = 10.0


def reload_ms(connection: http.client.HTTPConnection, url: str, path: Path, text: str, mark: str) -> float:
    """Save a text and return the milliseconds until a response carries the mark."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text)
    began = time.perf_counter()
    temporary.replace(path)
    while time.perf_counter() - began < GIVE_UP:
        connection.request("GET", url)
        if mark.encode() in connection.getresponse().read():
            return (time.perf_counter() - began) * 1000
    sys.exit(f"{mark} did not show within {GIVE_UP} s")


def p95(values: list[float]) -> float:
    """Return the 95th percentile (nearest rank)."""
    return sorted(values)[max(0, -(-95 * len(values) // 100) - 1)]


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="svc bench ü ") as folder:
        project = Path(folder) / "pulse"
        shutil.copytree(ROOT / "sample-apps" / "pulse", project)
        page, script = project / "front" / "index.html", project / "api" / "src" / "index.js"
        page_text, script_text = page.read_text(), script.read_text()
        with svc_dev(project) as port:
            seconds = 2 * SAVES * (PAUSE + 0.2) + 3
            loads = [start_load(port, url, seconds, 4, RATE / 2) for url in ("/", "/api/now")]
            time.sleep(1)
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=GIVE_UP)
            static, js = [], []
            for number in range(SAVES):
                mark = f"static-{number}-mark"
                text = page_text.replace("</main>", f"<!-- {mark} --></main>")
                static.append(reload_ms(connection, "/", page, text, mark))
                time.sleep(PAUSE)
                mark = f"js-{number}-mark"
                text = script_text.replace("Response.json({", f"Response.json({{ mark: '{mark}',")
                js.append(reload_ms(connection, "/api/now", script, text, mark))
                time.sleep(PAUSE)
            failed = sum(loaded(load)["failed"] for load in loads)
    print("static ms:", " ".join(f"{value:.0f}" for value in sorted(static)))
    print("js ms:    ", " ".join(f"{value:.0f}" for value in sorted(js)))
    write_results("reload", {"static_p95_ms": p95(static), "js_p95_ms": p95(js), "failed": failed})
    print(f"reload p95 static={p95(static):.0f} js={p95(js):.0f} failed={failed}")


if __name__ == "__main__":
    main()
