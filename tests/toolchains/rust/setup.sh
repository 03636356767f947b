#!/usr/bin/env bash
# Builds a Rust toolchain for wasm32-wasip2 on machines that cannot reach rustup's server: Debian's rustc, std
# compiled for the target from Debian's sources, and the linker of rustup's own toolchain.
# For tests only; users run `rustup target add wasm32-wasip2`.
#
#   setup.sh PREFIX     PREFIX/bin has cargo, rustc and rustdoc; PREFIX/vendor has the crates that std depends on
#
# Requires Debian on amd64, dpkg, apt-get with package lists (root updates them), and rustup's stable toolchain.
# Takes a minute or two and 500 MB. A rename installs the finished toolchain; a second run changes nothing.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1"
prefix=$(cd "$1" && pwd)
target=wasm32-wasip2
inputs=$(cat "$here/setup.sh" "$here/libc-stubs.rs" | sha256sum | cut -d' ' -f1)

exec 9> "$prefix.lock"
flock 9
if [ "$(cat "$prefix/complete" 2>/dev/null)" = "$inputs" ]; then exit 0; fi

report() { echo "· $*" >&2; }
fail() { echo "error: $*" >&2; exit 1; }

# PATH may have only rustup's proxies, which print the folder of the toolchain.
rustup_root=$(rustc +stable --print sysroot 2>/dev/null || rustc --print sysroot) || fail "rustup's toolchain is needed"
host=$("$rustup_root/bin/rustc" -vV | sed -n 's/^host: //p')
linkers="$rustup_root/lib/rustlib/$host/bin"
if ! [ -x "$linkers/wasm-component-ld" ] || ! [ -x "$linkers/gcc-ld/wasm-ld" ]; then
    fail "$linkers has no linker for WebAssembly components: rustup's Rust 1.82 or newer is needed"
fi

staging="$prefix.staging"
rm -rf "$staging"
mkdir -p "$staging/debs" "$staging/root" "$staging/bin"

report "fetching Debian's packages of rustc"
# Lists that are months old name versions that the mirror has removed.
if [ "$(id -u)" = 0 ]; then apt-get update -qq >&2 || report "apt cannot update its package lists"; fi
version=$(apt-cache show rustc-web | sed -n 's/^Version: //p' | head -n 1)
[ -n "$version" ] || fail "apt has no package rustc-web"
std="libstd-rust-web-$(echo "$version" | cut -d. -f1,2)"
llvm=$(apt-cache show "$std=$version" | grep -o 'libllvm[0-9]*' | head -n 1)
(cd "$staging/debs" && apt-get -qq -o APT::Sandbox::User=root download "rustc-web=$version" "rust-web-src=$version" "$std=$version" \
    "libstd-rust-web-dev=$version" "$llvm" wasi-libc >&2)
for package in "$staging"/debs/*.deb; do
    case $package in
    */rust-web-src_*) # It has the sources of the compiler too: extract only std and its crates.
        dpkg --fsys-tarfile "$package" |
            tar -x -C "$staging/root" --wildcards './usr/src/rustc-*/library/*' './usr/lib/*' ;;
    *) dpkg -x "$package" "$staging/root" ;;
    esac
done
rm -rf "$staging/debs"

usr="$staging/root/usr"
sources=$(readlink -f "$usr/lib/rustlib/src/rust/library" 2>/dev/null) || sources=$(echo "$usr"/src/rustc-*/library)
objects="$usr/lib/rustlib/$target/lib"
ln -sfn "$linkers" "$usr/lib/rustlib/$host/bin"
mkdir -p "$objects/self-contained"
cp "$usr"/lib/wasm32-wasi/{libc.a,crt1-command.o,crt1-reactor.o} "$objects/self-contained/"

for tool in rustc rustdoc; do
    cat > "$staging/bin/$tool" <<END
#!/bin/sh
usr=\$(cd "\$(dirname "\$0")/../root/usr" && pwd)
LD_LIBRARY_PATH="\$usr/lib/x86_64-linux-gnu\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}" exec "\$usr/bin/$tool" "\$@"
END
done
cat > "$staging/bin/cargo" <<END
#!/bin/sh
bin=\$(cd "\$(dirname "\$0")" && pwd)
RUSTC="\${RUSTC:-\$bin/rustc}" RUSTDOC="\${RUSTDOC:-\$bin/rustdoc}" exec "$rustup_root/bin/cargo" "\$@"
END
chmod +x "$staging"/bin/*

report "building std for $target, about a minute"
# Debian removes prebuilt objects. Only asynchronous functions of components need this one.
for crate in "$sources"/vendor/wit-bindgen-*; do
    [ -e "$crate/src/rt/libwit_bindgen_cabi.a" ] || printf '!<arch>\n' > "$crate/src/rt/libwit_bindgen_cabi.a"
done
std_build="$staging/std-build"
mkdir -p "$std_build/src" "$std_build/.cargo"
: > "$std_build/src/lib.rs"
printf '[package]\nname = "std-build"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n' > "$std_build/Cargo.toml"
printf '[source.crates-io]\nreplace-with = "vendor"\n[source.vendor]\ndirectory = "%s"\n' "$sources/vendor" \
    > "$std_build/.cargo/config.toml"
# Without the feature `backtrace`: its parsers of debug information take a quarter of the time, and std does not use
# them on this target. Panic messages lack only the note on RUST_BACKTRACE.
(cd "$std_build" && RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Cembed-bitcode=yes CARGO_TARGET_DIR="$std_build/target" \
    "$staging/bin/cargo" build --quiet --release --offline --target "$target" -Zbuild-std=std,panic_abort,proc_macro \
    -Zbuild-std-features=panic-unwind)
cp "$std_build/target/$target"/release/deps/*.rlib "$objects/"
rm -rf "$objects"/libstd_build-*.rlib "$std_build"

# Debian's libc is older than this std: add the missing functions, which fail with "not supported".
RUSTC_BOOTSTRAP=1 "$staging/bin/rustc" --edition 2021 --crate-type rlib --emit obj -O --target "$target" \
    -C panic=abort -C codegen-units=1 "$here/libc-stubs.rs" -o "$staging/libc-stubs.o"
ar q "$objects/self-contained/libc.a" "$staging/libc-stubs.o"
rm "$staging/libc-stubs.o"

mv "$sources/vendor" "$staging/vendor"
rm -rf "$usr"/src "$usr/lib/rustlib/src" "$usr/share"
echo "$inputs" > "$staging/complete"
rm -rf "$prefix"
mv "$staging" "$prefix"
report "$("$prefix/bin/rustc" --version) for $target is in $prefix"
