#!/bin/sh
# make demo and make stop.  Everything lies in $BUILD/demo.
set -eu

cd "$(dirname "$0")/.."
mkdir -p "${BUILD:-build}"
build=$(cd "${BUILD:-build}" && pwd)
port=${PORT:-8080}
demo=$build/demo
url=http://127.0.0.1:$port
nginx=${NGINX:-/usr/sbin/nginx}

# a pid that another program has by now is not ours

running() {
    pid=$(pid) && [ "$pid" ] \
        && [ "$(ps -o comm= -p "$pid" 2>/dev/null)" = nginx ]
}

# nginx removes the file when it leaves, which may be now

pid() {
    cat "$demo/demo.pid" 2>/dev/null
}

ng() {
    "$nginx" -p "$demo/" -c "$demo/nginx.conf" -e "$demo/logs/error.log" "$@"
}

# nginx, or one of the supervisors that it ever started here, which go last

left() {
    running && return 0
    for pid in $(sed -n 's/.*start supervisor .*: ok \([0-9]*\)$/\1/p' \
                 "$demo/logs/error.log" 2>/dev/null)
    do
        [ "$(ps -o comm= -p "$pid" 2>/dev/null)" != mistral ] || return 0
    done
    return 1
}

stop() {
    # not "nginx -s quit": it reads the configuration, which may be broken

    ! running || kill -QUIT "$pid" 2>/dev/null || true
    i=0
    while left; do
        i=$((i + 1))
        [ $i -lt 150 ] || { echo "still there after 15 s:" >&2
                            ps ax | grep "[m]istral engine" >&2; exit 1; }
        [ $i -ne 80 ] || ! running || kill -TERM "$pid" 2>/dev/null || true
        sleep 0.1
    done
}

start() {
    case $port in
    ''|*[!0-9]*|??????*) echo "PORT=$port is no port: 1 to 65535" >&2
                         exit 2 ;;
    esac

    mkdir -p "$demo/logs" "$demo/temp"

    old=$(sed -n 's/.*listen *127.0.0.1:\([0-9]*\);.*/\1/p' \
          "$demo/nginx.conf" 2>/dev/null || true)

    if ! running || [ "$old" != "$port" ]; then
        if curl -s -o /dev/null --max-time 2 "$url/" || [ $? -ne 7 ]; then
            echo "port $port is taken: make demo PORT=N" >&2
            exit 1
        fi
    fi

    sed -e "s|@BUILD@|$build|; s|@PORT@|$port|" \
        -e "s|@MODEL@|$build/models/SmolLM2-135M-Instruct.Q4_1.gguf|" \
        conf.d/demo.conf > "$demo/nginx.conf"

    if running; then
        ng -t -q && ng -s reload
        echo "nginx reloaded"
    else
        : > "$demo/logs/error.log"
        ng
    fi

    i=0
    until [ "$(curl -s -o /dev/null -w '%{http_code}' "$url/healthz")" = 200 ]
    do
        i=$((i + 1))
        [ $i -lt 300 ] || { echo "not ready after 30 s:" >&2
                            tail -n 5 "$demo/logs/error.log" >&2; exit 1; }
        [ $((i % 10)) -ne 0 ] || printf . >&2
        sleep 0.1
    done
}

chat() {
    question="What is the capital of France?"
    printf '\n> %s\n' "$question"

    curl -sN --fail-with-body "$url/v1/chat/completions" \
        -H 'Content-Type: application/json' \
        -d "{\"model\": \"smollm2\", \"stream\": true, \"temperature\": 0,
             \"messages\": [{\"role\": \"user\",
                             \"content\": \"$question\"}]}" \
        | sed -un 's/^data: {/{/p' \
        | jq -j --unbuffered '.choices[0].delta.content // .error.message // ""'
    printf '\n\n'
}

case ${1:-} in
start)
    start
    chat
    cat <<END
$url/v1 answers OpenAI and Mistral clients.  Try:

  curl -N $url/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{"stream": true, "messages": [{"role": "user", "content": "Hello"}]}'

logs: $demo/logs   the end: make stop
END
    ;;
stop)
    stop
    ;;
*)
    echo "usage: demo.sh start|stop" >&2
    exit 2
    ;;
esac
