#!/usr/bin/env bash
# Starts all tasks on this machine. After a failure it starts all of them again, three times at most.
set -u
cd "$(dirname "$0")" || exit 1
tasks=@TASKS@
python=${PYTHON:-python3}
unset http_proxy https_proxy grpc_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY  # gRPC uses them
pids=()
stop() {  # TensorFlow ignores SIGTERM
    [ ${#pids[@]} -eq 0 ] || kill -9 "${pids[@]}" 2>/dev/null
    wait
    pids=()
}
trap 'stop; exit 130' INT TERM
for attempt in 1 2 3 4; do
    TASK_ADDRESSES=$("$python" - "$tasks" <<'PYTHON'
import socket, sys
sockets = [socket.socket() for _ in range(int(sys.argv[1]))]
for one in sockets:
    one.bind(("127.0.0.1", 0))  # port 0: any free one
print(*(f"127.0.0.1:{one.getsockname()[1]}" for one in sockets))
PYTHON
    ) || exit 1
    export TASK_ADDRESSES TASKS_ON_THIS_MACHINE=$tasks
    for ((number = 0; number < tasks; number++)); do
        TASK_NUMBER=$number "$python" -u train.py >"task-$number.log" 2>&1 &
        pids+=($!)
    done
    status=0
    for ((number = 0; number < tasks; number++)); do
        wait -n || { status=$?; break; }
    done
    stop
    [ "$status" -eq 0 ] && break
    echo "A task failed with code $status (attempt $attempt). The ends of the logs:" >&2
    tail -n 5 task-*.log >&2
done
[ "$status" -ne 0 ] || tail -n 2 task-*.log
exit "$status"
