#!/bin/sh
# The container's start: writes the configuration for "nginx" and runs it;
# anything else is run as it stands ("nginx -c FILE", "mistral inspect FILE").
#
#   MODEL    file of the model; default: the only one in /models
#   NAME     what clients call it; default: the file's name without its end
#   DEVICE   auto, cpu, cuda:0 ...
#   QUEUE    how many requests may wait: "128 timeout=60s"
#   LISTEN   8080, METRICS 9145: ports
#   WORKERS  auto: nginx worker processes
#
# Paths, for tests: MODELS, MODULE, CONF (the template), RUN.
set -eu

fail() {
    echo "entrypoint: $1" >&2
    exit 78
}

# one setting: it goes into a configuration, so it has nothing that ends a line
# of it

plain() {
    case $2 in
    '' | *[!A-Za-z0-9\ ._/:=,%+@-]*) fail "$1=\"$2\" is not a plain value" ;;
    esac
}

only_model() {
    found=
    for file in "$MODELS"/*.gguf "$MODELS"/*/config.json; do
        [ -e "$file" ] || continue
        [ -z "$found" ] || fail "several models in $MODELS, set MODEL"
        found=${file%/config.json}
    done
    [ -n "$found" ] || fail "no model in $MODELS: mount one there, or set MODEL"
    echo "$found"
}

case ${1:-nginx} in
mistral) shift; exec /usr/lib/nginx/modules/mistral "$@" ;;
nginx) [ $# -le 1 ] || exec "$@" ;;
*) exec "$@" ;;
esac

MODELS=${MODELS:-/models}
MODEL=${MODEL:-$(only_model)}
file=${MODEL##*/}
NAME=${NAME:-${file%.gguf}}
DEVICE=${DEVICE:-auto}
QUEUE=${QUEUE:-128 timeout=60s}
LISTEN=${LISTEN:-8080}
METRICS=${METRICS:-9145}
WORKERS=${WORKERS:-auto}
MODULE=${MODULE:-modules/ngx_http_mistral_module.so}
CONF=${CONF:-/etc/nginx/mistral.conf}
RUN=${RUN:-/run/nginx-mistral}

mkdir -p "$RUN"
cp "$CONF" "$RUN/nginx.conf"

value=

for name in MODEL NAME DEVICE QUEUE LISTEN METRICS WORKERS MODULE RUN; do
    eval "value=\$$name"
    plain "$name" "$value"
    sed -i "s|@$name@|$value|g" "$RUN/nginx.conf"
done

exec "${NGINX:-nginx}" -e stderr -c "$RUN/nginx.conf"
