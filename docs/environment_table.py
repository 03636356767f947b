"""Environment variables, as the generated reference page lists them."""

from svc_tui.composition import doors

Row = tuple[str, ...]

ENVIRONMENT: dict[str, tuple[str, list[Row]]] = {
    "The svc command": (
        "The client ignores `HTTP_PROXY` and `HTTPS_PROXY`.",
        [
            (
                "`SVC_HOME`",
                "Folder of svc's own files (default: `~/.svc`). Its `cache/` may be deleted at any time.",
            ),
            ("`SVC_URL`", "Service to use. Alone, it selects one of your sessions."),
            ("`SVC_TOKEN`", "Token to use with `SVC_URL`; it overrides saved sessions."),
            ("`SVC_INSECURE`", "`1` permits `SVC_TOKEN` over `http://` to another machine."),
            (
                "`SVC_TEST_URL`, `SVC_TEST_URL_…`",
                "Set by `svc test` for its command: addresses of the project.",
            ),
            ("`SVC_TEST_DATA`", "Set by `svc test` for its command: folder that replaces `.svc`."),
            ("`SVC_DEBUG`", "`1` prints a traceback when svc itself fails."),
            ("`NO_COLOR`", "Disables color."),
            ("`TERM`", "`dumb` prevents the Console."),
            ("`SSL_CERT_FILE`", "File of certificate authorities to trust besides the system's."),
            (
                "`PYTHON_KEYRING_BACKEND`",
                "Keyring for sessions; `keyring.backends.null.Keyring` disables it.",
            ),
            ("`VISUAL`, `EDITOR`", "Editor that the Console starts for long cells."),
            ("`CARGO`, `CARGO_HOME`, `RUSTUP_HOME`", "Rust toolchain of the rust lane."),
        ],
    ),
    "svc serve in a fleet": (
        "Other users of the machine see options in the list of processes, and not variables.",
        [("`SVC_JOIN`", "Token of the fleet to join, as `--join`.")],
    ),
    "svc serve --region": (
        "A variable of the machine, where each has the same unit.",
        [("`SVC_REGION`", "Region of the machine in its log records, as `--region`.")],
    ),
    "svc serve --notify": (
        "Other users of the machine see options in the list of processes and in units, and not variables.",
        [("`SVC_NOTIFY`", "Receivers of alerts, separated by spaces, as `--notify`.")],
    ),
    "svc serve --acme-dns": (
        "Credentials of the DNS provider, as [Certificates](../guides/operate/certificates.md) describes.",
        [
            (
                "`LEXICON_RFC2136_SERVER`, `LEXICON_RFC2136_AUTH_TOKEN`",
                "Of `rfc2136`: HOST[:PORT], and the key as ALGORITHM:NAME:SECRET.",
            ),
            ("`LEXICON_<PROVIDER>_…`", "Of another provider: those that lexicon documents."),
        ],
    ),
    "svc serve under systemd": (
        "`svc serve --print-unit` and `--print-socket` write units that use these.",
        [
            ("`LISTEN_FDS`, `LISTEN_PID`, `LISTEN_FDNAMES`", "Listening sockets from systemd."),
            ("`NOTIFY_SOCKET`", "Socket for `READY=1` and `STOPPING=1`."),
        ],
    ),
    "svc serve --otlp": (
        "Variables of the OpenTelemetry SDK. The collectors of projects do not get them.",
        [
            ("`OTEL_EXPORTER_OTLP_HEADERS`", "Headers to send, such as `authorization=Bearer%20TOKEN`."),
            ("`OTEL_EXPORTER_OTLP_CERTIFICATE`", "File of certificate authorities to trust."),
            (
                "`OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE`, `OTEL_EXPORTER_OTLP_CLIENT_KEY`",
                "Client certificate and its key.",
            ),
        ],
    ),
    "Your code": (
        "Your code gets the variables of `env` and `secrets` in `svc.toml`, and these. JavaScript reads\n"
        "them from `env` or `process.env`, Go from `os.Getenv`, Rust from `std::env`.\n"
        "`svc.toml` cannot set them.",
        [
            ("`SVC_PROJECT`", "Name of the project."),
            ("`SVC_RESOURCE`", "Name of the resource."),
            ("`SVC_DEPLOYMENT`", "Id of the deployment; `dev` in development."),
            ("`SVC_MEMORY_LIMIT_MB`", "`memory_limit_mb` of the resource."),
            ("`SVC_REQUEST_ID`", "Id of the request, as in `x-request-id` and in logs."),
            ("`TRACEPARENT`", "W3C trace context of the request."),
            *(
                (", ".join(f"`{name}`" for name in door.variables), f"Base URL of the Door {door.name}.")
                for door in doors()
            ),
        ],
    ),
}
