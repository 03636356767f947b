"""Bundles of npm packages and modules of Node.js, in dev and deploy mode; `node.js` has the checks."""

import asyncio
import hmac
import json
from base64 import b64encode
from hashlib import md5, pbkdf2_hmac, scrypt, sha256
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from tests.lanes.js.sources import MODES, Sources
from tests.lanes.js.test_crypto import answers_with_crypto
from tests.support.guest_client import Answer

pytestmark = pytest.mark.slow
UNAVAILABLE = "ERR_FEATURE_UNAVAILABLE_ON_PLATFORM"
LACKING = (
    '{} is not available: the js lane has only a part of the module "{}" of Node.js, which {} imports; {}'
)
IMPORT = "import the file, and the bundle contains its content; store data in tables"
WASM = (
    "WebAssembly.{} is not available: a component cannot compile code; "
    "use a version of the package in JavaScript, or a go or rust resource"
)
VALUES: dict[str, Any] = {
    "async-local-storage": [[[n] * 8 for n in (3, 1, 2)], None],
    "async-resource": ["r", "s", "b", "e", None, "argument"],
    "events": [[5], True],
    "stream": ["A", "B"],
    "buffer": ["dGVh", "tea", 2, True, 2, "é"],
    "buffer-encodings": ["w7w_Pg", "ü?>", True, "ab", "616263", 2, 1, []],
    "os": ["\n", "linux", 1, 15, "/"],
    "files": [
        False,
        [
            "ENOENT",
            "ENOENT: no such file or directory, readFile '/a': "
            "the js lane has no files; import the file, and the bundle contains it",
        ],
        [UNAVAILABLE, LACKING.format("fs.writeFileSync", "fs", "api/index.js", IMPORT)],
    ],
    "servers": [
        UNAVAILABLE,
        LACKING.format(
            "http.createServer", "http", "api/index.js", "export a fetch handler, for example with Hono"
        ),
    ],
    "http": [True, "Not Found", "get"],
    "net": [4, 6, 0, UNAVAILABLE],
    "zlib": [
        "tea",
        "tea",
        crc32(b"tea"),
        1,
        [
            UNAVAILABLE,
            LACKING.format(
                "zlib.brotliCompressSync",
                "zlib",
                "api/index.js",
                "compress with gzip, such as zlib.gzipSync or CompressionStream('gzip')",
            ),
        ],
    ],
    "brotli": [1, 200, "ERR__ERROR_FORMAT"],
    "parse-args": [
        {
            "values": {"verbose": True, "number": "3", "tag": ["a", "b"], "size": "s"},
            "positionals": ["file", "-x"],
            "tokens": [
                {"kind": "option", "name": "verbose", "rawName": "-v", "index": 0},
                {
                    "kind": "option",
                    "name": "number",
                    "rawName": "-n",
                    "index": 0,
                    "value": "3",
                    "inlineValue": False,
                },
                {
                    "kind": "option",
                    "name": "tag",
                    "rawName": "--tag",
                    "index": 2,
                    "value": "a",
                    "inlineValue": True,
                },
                {
                    "kind": "option",
                    "name": "tag",
                    "rawName": "--tag",
                    "index": 3,
                    "value": "b",
                    "inlineValue": False,
                },
                {"kind": "positional", "index": 5, "value": "file"},
                {"kind": "option-terminator", "index": 6},
                {"kind": "positional", "index": 7, "value": "-x"},
            ],
        },
        ["ERR_PARSE_ARGS_UNKNOWN_OPTION", "Unknown option '--what'"],
        [
            "ERR_PARSE_ARGS_UNEXPECTED_POSITIONAL",
            "Unexpected argument 'what'. This command does not take positional arguments",
        ],
    ],
    "web-streams": ["tea", {"a": 1}, "tea", "tea"],
    "legacy-stream": [["tea"], True],
    "small": ["number", True, "MODULE_NOT_FOUND"],
    "cloudflare-workers": ["node", None, UNAVAILABLE],
    "web-assembly": [WASM.format("instantiate"), WASM.format("Module"), False],
    "caches": [None, None],
    "util-inspect": [
        "Map(1) { { a: 1 } => Set(1) { 'b' } }",
        "[ Symbol(a), [class A extends Own] ]",
        "{ a: { b: { c: [Object] } } }",
        "{ a: 1 } tea",
        "own",
    ],
    "path": ["b", "y", ".txt"],
    "url": ["c=1", "/a/b", {"a": "1", "b": "2"}],
    "util": [1, True, True, False, "x is 2", True, True],
    "assert": "ERR_ASSERTION",
    "process": [True, "/", "node", "bigint"],
    "binding": [None, "process.binding is not supported in the js lane"],
    "immediate": "immediate",
    "packages": {"text": "browser", "map": "browser", "none": "object", "condition": "workerd"},
    "packages-without-page": ["a/b", "node", "no page", "MODULE_NOT_FOUND", "/"],
    "require-takes-main": "main",
    "guarded-require": [UNAVAILABLE, LACKING.format("fs.chmod", "fs", "the package packages", IMPORT)],
    "guarded-import": [
        UNAVAILABLE,
        LACKING.format("net.connect", "net", "the package packages", "call an HTTP API with fetch()"),
    ],
    "promisify": ["tea", "milk"],
    "crypto-hashes": [
        sha256(b"tea").hexdigest(),
        b64encode(md5(b"tea").digest()).decode(),
        hmac.digest(b"key", b"tea", "sha1").hex(),
        64,
    ],
    "crypto-derivation": [
        scrypt(b"password", salt=b"salt", n=1024, r=8, p=1, dklen=16).hex(),
        pbkdf2_hmac("sha512", b"password", b"salt", 1000, 16).hex(),
        HKDF(hashes.SHA256(), 16, b"salt", b"info").derive(b"key").hex(),
        False,
        70_000,
        3,
    ],
    "crypto-signatures": [[True, True, False]] * 3,
    "crypto-ciphers": [[3, "tea"], [16, "tea"], [3, "tea"]],
    "crypto-cipher-parts": [
        [
            ",".join(map(str, range(60))),
            "8db5ff57105465b2fee6ebefeaea98445a179b097bfbee4094b15def22229683",
            [37, 1733],
            1770,
        ],
        [
            ",".join(map(str, range(60))),
            "96578a8668dff34b02acc04a4915111d7502685c596c0d72f33f2c60f2997036",
            [37, 1733],
            1770,
        ],
        [
            ",".join(str((n * (n + 1) // 2 // 16 - n * (n - 1) // 2 // 16) * 16) for n in range(60)),
            "91d211ef3122a3e05c4c7afd2aa5b977ce3a81526b578d48d498eccc96f28c4a",
            [32, 1728],
            1770,
        ],
        [
            ",".join(map(str, range(60))),
            "615de7bd8862604cb7f4e6ba69288d89dfba9a174519f90d2183f6afb44c2e4e",
            [37, 1733],
            1770,
        ],
    ],
    "crypto-cipher-unpadded": [64, "t" * 32, 3, True, "ERR_OSSL_WRONG_FINAL_BLOCK_LENGTH"],
    "crypto-agreement": [
        "0251590b7a515140d2d784c85608668fdfef8c82fd1f5be52421554a0dc3d033ed",
        64,
        130,
        True,
        32,
        ["ERR_CRYPTO_INVALID_CURVE", "Invalid EC curve name"],
        ["ERR_CRYPTO_ECDH_INVALID_PUBLIC_KEY", "Public key is not valid for specified curve"],
        ["ERR_CRYPTO_INVALID_KEYTYPE", "Private key is not valid for specified curve."],
        ["ERR_CRYPTO_OPERATION_FAILED", "Failed to get ECDH public key"],
    ],
    "crypto-keys": [True, "-----BEGIN RSA PRIVATE KEY-----", True, "AQAB", "tea"],
    "crypto-errors": [
        ["ERR_CRYPTO_INVALID_DIGEST", "crypto: the hash whirlpool is not available"],
        "crypto: digest is not available while a module is loaded",
        ["ERR_OSSL_UNSUPPORTED", "crypto: the key is not an RSA, EC or Ed25519 key"],
        [
            UNAVAILABLE,
            LACKING.format("crypto.X509Certificate", "crypto", "api/index.js", "use crypto.subtle"),
        ],
    ],
    "unicode-literals": [True, False, True, True, False, "ab", True, 2],
    "unicode-patterns": [True, True, ["a", "b"], True, True, True],
    "normalize": [1, 2, "fi", 3],
    "url-pattern": {"id": "7", "action": "edit"},
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
    "text/dual/package.json": '{"module": "./m.mjs", "main": "./m.js"}',
    "text/dual/m.mjs": "export default 'module';",
    "text/dual/m.js": "module.exports = 'main';",
    "page/package.json": '{"browser": {"./node": "./node.page"}, "main": "./main.js"}',
    "page/main.js": "exports.page = require('./node');",
    "page/node.js": "module.exports = () => require('path').join('a', 'b');",
    "page/node.page.js": "module.exports = () => document.createElement('p').tagName;",
    "exported/package.json": '{"exports": {"browser": {"import": "./page.mjs"}, "default": "./node.js"}}',
    "exported/node.js": "module.exports = () => 'node';",
    "exported/page.mjs": "export default () => new DOMParser().parseFromString('');",
    "asks/package.json": '{"browser": "./page.js", "main": "./node.js"}',
    "asks/node.js": "module.exports = () => 'node';",
    "asks/page.js": "module.exports = () => (typeof document === 'undefined' ? 'no page' : document.title);",
    "packages/parts.js": "export { page } from 'page';\n"
    "export { default as exported } from 'exported';\n"
    "export { default as asks } from 'asks';\n"
    "export const optional = () => require('absent/file');\n"
    "export { default as text } from 'text';\n"
    "export { map, none } from 'map';\n"
    "export { default as condition } from 'condition';\n",
    "packages/package.json": '{"module": "./all.js"}',
    "packages/all.js": "export * from './parts.js';\n"
    "export const requires = () => require('fs').chmod(), "
    "imports = async () => (await import('node:net')).connect();\n",
    "runtime/package.json": '{"exports": {"./jsx-runtime": "./jsx.js"}}',
    "runtime/jsx.js": "export const jsx = (type, props) => ({ type, props });",
}


def _keys() -> list[dict[str, str]]:
    """Return pairs of keys for node.js, each with a signature of `tea`."""
    rsa_key = rsa.generate_private_key(65537, 2048)
    ec_key = ec.generate_private_key(ec.SECP256R1())
    rsa_signature = b64encode(rsa_key.sign(b"tea", padding.PKCS1v15(), hashes.SHA256())).decode()
    ec_signature = b64encode(ec_key.sign(b"tea", ec.ECDSA(hashes.SHA256()))).decode()
    private = PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL, PrivateFormat.PKCS8
    signed = (rsa_key, rsa_signature), (rsa_key, rsa_signature), (ec_key, ec_signature)
    return [
        {
            "hash": "sha256" if key is ec_key else "RSA-SHA256",
            "privateKey": key.private_bytes(Encoding.PEM, form, NoEncryption()).decode(),
            "publicKey": key.public_key()
            .public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
            .decode(),
            "signature": signature,
        }
        for form, (key, signature) in zip(private, signed, strict=True)
    ]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> dict[str, dict[str, Answer]]:
    sources = Sources(tmp_path_factory.mktemp("bundling").resolve(), cache)
    for name, text in PACKAGES.items():
        sources.write(f"node_modules/{name}", text)
    sources.write("keys.json", json.dumps(_keys()))
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
        mode: asyncio.run(
            answers_with_crypto(cache, sources.resource, sources.build(mode), {"PROGRAM": "node"}, targets)
        )
        for mode in MODES
    }


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", VALUES)
def test_bundle_has_the_value_of_node(answers: dict[str, dict[str, Answer]], mode: str, name: str) -> None:
    answer = answers[mode][f"/{name}"]
    assert answer.status == 200, answer
    assert json.loads(answer.body) == VALUES[name]
