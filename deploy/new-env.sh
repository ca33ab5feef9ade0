#!/bin/sh
# Writes .env from .env.example: every empty value becomes a random one. An .env that exists is left alone.
set -eu
cd "$(dirname -- "$0")/.."
if [ -e .env ]; then
    echo ".env exists already; remove it to make another (databases keep the old passwords)" >&2
    exit 1
fi
umask 077
while IFS= read -r line; do
    case $line in
        \#*) printf '%s\n' "$line" ;;
        # Fernet wants exactly 32 bytes in base64 for URLs.
        *FERNET*=) printf '%s%s\n' "$line" "$(head -c 32 /dev/urandom | base64 | tr '+/' '-_')" ;;
        *=) printf '%s%s\n' "$line" "$(od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n')" ;;
        *) printf '%s\n' "$line" ;;
    esac
done < .env.example > .env
echo ".env is written" >&2
