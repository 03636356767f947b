#!/bin/sh
# Installs svc for this user, or as a service of this machine. A second run changes nothing.
# docs/get-started/install.md and docs/guides/operate/self-host.md explain it.
set -eu

usage() {
    cat <<'END'
Usage: install.sh [--dry-run] [--uninstall] [--server --domain DOMAIN [--acme MAIL] [-- OPTION…]]

  --server          create the user svc, its folders and systemd units, and start the service (as root)
  --domain DOMAIN   domain of the applications: <project>.DOMAIN
  --acme MAIL       obtain certificates; MAIL gets messages of the authority
  -- OPTION…        further options of svc serve
  --uninstall       remove what was installed; the data of a service stays
  --dry-run         print the commands instead of running them

Environment:
  SVC_SOURCE        package, wheel or folder to install (default: svc-tui, with --acme svc-tui[acme])
  SVC_UV            uv to use (default: the one on PATH, else one that is installed for svc alone)
  SVC_UV_INSTALLER  installer of uv where Python has no pip (default: https://astral.sh/uv/install.sh)
END
}

fail() {
    printf 'error: %s\n  hint: %s\n' "$1" "$2" >&2
    exit "${3:-1}"
}

# Runs a command, or prints it with --dry-run.
run() {
    if [ "$dry" = yes ]; then
        printf '+ %s\n' "$*"
    else
        "$@"
    fi
}

# Sets uv to a usable uv, which is installed below $own without one.
find_uv() {
    uv=${SVC_UV:-$(command -v uv || true)}
    if [ -z "$uv" ] && [ -x "$own/uv/bin/uv" ]; then
        uv=$own/uv/bin/uv
    fi
    if [ -n "$uv" ]; then
        return
    fi
    uv=$own/uv/bin/uv
    echo "· installing uv into $own/uv"
    run mkdir -p "$own/uv/bin"
    if python3 -c 'import ensurepip, venv' 2>/dev/null; then
        run python3 -m venv "$own/uv"
        run "$own/uv/bin/python3" -m pip install --quiet --disable-pip-version-check uv
    elif command -v curl >/dev/null; then
        installer=${SVC_UV_INSTALLER:-https://astral.sh/uv/install.sh}
        if [ "$dry" = yes ]; then
            echo "+ curl -fsSL $installer | UV_UNMANAGED_INSTALL=$own/uv/bin sh"
        else
            script=$(curl -fsSL "$installer") || fail "cannot download $installer" \
                "Install uv yourself, and set SVC_UV to its path."
            printf '%s\n' "$script" | UV_UNMANAGED_INSTALL=$own/uv/bin sh -s -- --quiet
        fi
    else
        fail "uv is missing, and neither Python with pip nor curl is there to install it" \
            "On Debian and Ubuntu, run: apt install python3-venv"
    fi
}

install_svc() {
    find_uv
    echo "· installing $source with $uv"
    run "$uv" tool install --quiet --python '>=3.11' "$source"
}

# Fails for a domain or a mail address that svc serve refuses, before anything is installed.
check_values() {
    label='[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?'
    name=$(printf '%s' "$domain" | tr '[:upper:]' '[:lower:]' | sed 's/^\.*//; s/\.*$//')
    valid=$(printf '%s\n' "$name" | grep -Ex "$label(\.$label)*" || true)
    case $name in *[!a-z0-9.-]*) valid= ;; esac
    case ${name##*.} in *[!0-9]*) ;; *) valid= ;; esac  # An IP address.
    if [ -z "$valid" ] || [ "${#name}" -gt 189 ]; then
        fail "\"$domain\" is not a valid domain" "Use a name such as apps.example.com." 2
    fi
    if [ -n "$mail" ]; then
        valid=$(printf '%s\n' "$mail" | grep -Ex '[^@[:space:]]+@[^@[:space:]]+\.[^@[:space:]]+' || true)
        [ "$valid" = "$mail" ] || fail "--acme \"$mail\" is not a mail address" "For example: --acme you@example.com" 2
        case $name in
        *.*) ;;
        *) fail "an authority issues no certificates for $domain" "Pass --domain, a domain that leads here." 2 ;;
        esac
    fi
}

# Writes stdin to a file if it differs; sets changed then. The file restart has this for a run that fails later.
write() {
    text=$(cat)
    if [ -f "$1" ] && [ "$text" = "$(cat "$1")" ]; then
        return
    fi
    changed=yes
    if [ "$dry" = yes ]; then
        echo "+ write $1"
    else
        : >"$own/restart"
        printf '%s\n' "$text" >"$1.new"
        chmod 644 "$1.new"
        mv "$1.new" "$1"
    fi
}

# Prints a unit. Without an installed svc, --dry-run has only its name.
unit() {
    if [ "$dry" = yes ] && [ ! -x "$svc" ]; then
        echo "$1"
        return
    fi
    "$svc" serve "$@"
}

install_server() {
    install_svc
    if ! id svc >/dev/null 2>&1; then
        run useradd --system --user-group --no-create-home --home-dir "$state" --shell /usr/sbin/nologin svc
    fi
    run install -d -o svc -g svc -m 700 "$state" "$state/data"
    changed=no
    text=$(unit --print-unit "$@")
    write "$units/svc.service" <<END
$text
END
    text=$(unit --print-socket "$@")
    write "$units/svc.socket" <<END
$text
END
    if [ -e "$own/restart" ]; then
        changed=yes
    fi
    run systemctl enable --quiet svc.socket svc.service
    if [ "$dry" = no ] && [ ! -d /run/systemd/system ]; then
        echo "· systemd does not run here: the service starts with the machine"
    else
        if [ "$changed" = yes ]; then
            run systemctl daemon-reload
            run systemctl restart svc.socket svc.service
        fi
        run systemctl start svc.socket svc.service
    fi
    run rm -f "$own/restart"
}

# Prints what is left to do. svc logs its claim code at each start until it has an owner.
show_next() {
    code=
    if [ "$dry" = no ] && [ -d /run/systemd/system ]; then
        code=$(journalctl --unit svc --boot --output cat | sed -n 's/.*claim it with the code \([^" ]*\).*/\1/p' | tail -n 1)
    fi
    echo
    echo "Open the ports 443 and 8081 of the firewall, and 80 for certificates. To become the owner, run on your machine:"
    echo "  svc login $control${code:+ --claim $code}"
    if [ -z "$code" ]; then
        echo "The claim code is in the log: journalctl -u svc"
    fi
}

uninstall() {
    if [ "$server" = yes ]; then
        if [ -f "$units/svc.service" ]; then
            if [ -d /run/systemd/system ]; then
                run systemctl stop svc.service svc.socket
            fi
            run systemctl disable --quiet svc.service svc.socket
            run rm -f "$units/svc.service" "$units/svc.socket"
        fi
        run rm -rf "$own"
        echo "The data stays in $state, with the user svc. To remove both: rm -r $state; userdel svc"
        return
    fi
    uv=${SVC_UV:-$(command -v uv || echo "$own/uv/bin/uv")}
    if [ -x "$uv" ] && "$uv" tool list 2>/dev/null | grep -q '^svc-tui '; then
        run "$uv" tool uninstall --quiet svc-tui
    fi
    run rm -rf "$own"
    echo "Your settings and toolchains stay in ${SVC_HOME:-$HOME/.svc}."
}

main() {
    dry=no server=no remove=no domain='' mail=''
    while [ $# -gt 0 ]; do
        case $1 in
        --dry-run) dry=yes ;;
        --uninstall) remove=yes ;;
        --server) server=yes ;;
        --domain | --acme)
            case ${2--} in -*) fail "$1 needs a value" "Run install.sh --help." 2 ;; esac
            if [ "$1" = --domain ]; then domain=$2; else mail=$2; fi
            shift
            ;;
        -h | --help)
            usage
            exit
            ;;
        --)
            shift
            break
            ;;
        *) fail "unknown option $1" "Run install.sh --help." 2 ;;
        esac
        shift
    done
    source=${SVC_SOURCE:-svc-tui${mail:+[acme]}}
    if [ "$server" = no ]; then
        [ -z "$domain$mail$*" ] || fail "--domain, --acme and -- are for --server" "Pass --server." 2
        own=${XDG_DATA_HOME:-$HOME/.local/share}/svc
        if [ "$remove" = yes ]; then
            uninstall
        else
            install_svc
            bin=$(PATH=$PATH "$uv" tool dir --bin 2>/dev/null || echo "$HOME/.local/bin")
            case ":$PATH:" in
            *":$bin:"*) echo "Look around: svc demo" ;;
            *) echo "Add $bin to PATH, then look around: svc demo" ;;
            esac
        fi
        return
    fi
    [ "$(id -u)" = 0 ] || [ "$dry" = yes ] || fail "--server needs root" "Run it with sudo." 1
    own=/opt/svc state=/var/lib/svc units=/etc/systemd/system
    if [ "$remove" = yes ]; then
        uninstall
        return
    fi
    [ -n "$domain" ] || fail "--server needs --domain" "Pass the domain of the applications: --domain apps.example.com" 2
    check_values
    command -v systemctl >/dev/null || [ "$dry" = yes ] || fail "--server needs systemd" \
        "Run svc serve with the supervisor of this machine, or in a container." 1
    export UV_TOOL_DIR="$own/tools" UV_TOOL_BIN_DIR="$own/bin" UV_PYTHON_INSTALL_DIR="$own/python"
    svc=$own/bin/svc control=http://127.0.0.1:8081
    set -- --domain "$domain" "$@"
    if [ -n "$mail" ]; then
        set -- --listen '[::]:443' --control '[::]:8081' --acme "$mail" "$@"
        control=https://$domain:8081
    fi
    case " $* " in *" --tls-cert"*) control=https://$domain:8081 ;; esac
    install_server --data "$state/data" "$@"
    show_next
}

main "$@"
