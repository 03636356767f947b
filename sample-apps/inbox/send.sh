#!/bin/sh
# Sends a message as a provider does: sh send.sh '{"type": "order.paid", "data": {"amount": 12}}' [URL]
set -eu
body=$1
url=${2:-http://localhost:3000/hooks}
secret=$(sed -n 's/^WEBHOOK_SECRET=whsec_//p' "$(dirname "$0")/.env")
key=$(printf %s "$secret" | openssl base64 -d -A | od -An -v -tx1 | tr -d ' \n')
id=msg_$(openssl rand -hex 8)
time=$(date +%s)
signature=$(printf '%s.%s.%s' "$id" "$time" "$body" |
    openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | openssl base64 -A)
curl -sS "$url" -H 'content-type: application/json' --data-binary "$body" \
    -H "webhook-id: $id" -H "webhook-timestamp: $time" -H "webhook-signature: v1,$signature"
echo
