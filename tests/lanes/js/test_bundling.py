"""Bundles of npm packages and modules of Node.js, in dev and deploy mode; `node.js` has the checks."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.engine.wasm.conftest import Answer
from tests.lanes.js.conftest import MODES, Sources, ask

pytestmark = pytest.mark.slow
MISSING = '"{}" is a module of Node.js, which the js lane does not have; the package packages loads it'
VALUES: dict[str, Any] = {
    "async-local-storage": [[[n] * 8 for n in (3, 1, 2)], None],
    "async-resource": ["r", "s", "b", "e", None, "argument"],
    "events": [[5], True],
    "stream": ["A", "B"],
    "buffer": ["dGVh", "tea", 2, True, 2, "é"],
    "path": ["b", "y", ".txt"],
    "url": ["c=1", "/a/b", {"a": "1", "b": "2"}],
    "util": [1, True, True, False, "x is 2", True, True],
    "assert": "ERR_ASSERTION",
    "process": [True, "/", None, "bigint"],
    "binding": [None, "process.binding is not supported in the js lane"],
    "immediate": "immediate",
    "packages": {"text": "browser", "map": "browser", "none": "object", "condition": "workerd"},
    "guarded-require": ["MODULE_NOT_FOUND", MISSING.format("fs")],
    "guarded-import": ["MODULE_NOT_FOUND", MISSING.format("node:net")],
    "assets": [True, 3, "select 1;\n"],
    "jsx": {"type": "p", "props": {"children": "tea"}},
}
PACKAGES = {
    "text/package.json": '{"browser": "./b.js", "module": "./m.js", "main": "./m.js"}',
    "text/b.js": "module.exports = 'browser';",
    "text/m.js": "module.exports = 'main';",
    "map/package.json": '{"browser": {"./node.js": "./b.js", "fs": false}, "main": "./main.js"}',
    "map/main.js": "exports.map = require('./node.js'); exports.none = typeof require('fs');",
    "map/node.js": "module.exports = 'node';",
    "map/b.js": "module.exports = 'browser';",
    "condition/package.json": json.dumps(
        {"exports": {"node": "./n.js", "workerd": "./w.js", "browser": "./n.js"}}
    ),
    "condition/w.js": "export default 'workerd';",
    "condition/n.js": "export default 'other';",
    "packages/index.js": "export { default as text } from 'text';\n"
    "export { map, none } from 'map';\n"
    "export { default as condition } from 'condition';\n",
    "packages/package.json": '{"module": "./all.js"}',
    "packages/all.js": "export * from './index.js';\n"
    "export const requires = () => require('fs'), imports = () => import('node:net');\n",
    "runtime/package.json": '{"exports": {"./jsx-runtime": "./jsx.js"}}',
    "runtime/jsx.js": "export const jsx = (type, props) => ({ type, props });",
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> dict[str, dict[str, Answer]]:
    sources = Sources(tmp_path_factory.mktemp("bundling").resolve(), cache)
    for name, text in PACKAGES.items():
        sources.write(f"node_modules/{name}", text)
    sources.write("data.bin", "\1\2\3")
    sources.write("statement.sql", "select 1;\n")
    sources.write(
        "tsconfig.json",
        '{\n  // The transform follows.\n  "compilerOptions": {"jsxImportSource": "runtime"}\n}',
    )
    sources.write("page.tsx", "export const element = <p>tea</p>;\n")
    sources.write("index.js", Path(__file__).with_name("node.js").read_text())
    targets = [f"/{name}" for name in VALUES]
    return {
        mode: dict(zip(targets, ask(sources, sources.build(mode), *targets), strict=True)) for mode in MODES
    }


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", VALUES)
def test_bundle_has_the_value_of_node(answers: dict[str, dict[str, Answer]], mode: str, name: str) -> None:
    answer = answers[mode][f"/{name}"]
    assert answer.status == 200, answer
    assert json.loads(answer.body) == VALUES[name]
