# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034  # from bench.sh and lib.sh, and for these
# claim and complete, batch 10, 8 clients: direct, and through PgBouncer in transaction mode
if ! command -v pgbouncer >/dev/null; then
    left_out 'PgBouncer is not here'
    return 0
fi
claim_scripts
pooler=$(mktemp -d /tmp/pgwork.pooler.XXXXXX)
cat >"$pooler/ini" <<S
[databases]
* = host=$PGHOST port=$PGPORT user=$PGUSER
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = $pooler
auth_type = any
pool_mode = transaction
ignore_startup_parameters = options
default_pool_size = 8
max_client_conn = 100
pidfile = $pooler/pid
S
set -- pgbouncer -q "$pooler/ini"
if [ "$(id -u)" = 0 ]; then
    # PgBouncer refuses to be root; the server's user can reach its socket
    owner=$(stat -c %u "$PGHOST")
    chown -R "$owner" "$pooler"
    chmod 755 "$pooler"
    set -- setpriv --reuid="$owner" --regid="$(id -g "$owner")" --clear-groups "$@"
fi
"$@" >"$out/pooler.log" 2>&1 &
pooler_pid=$!
trap 'kill $pooler_pid 2>/dev/null || :; rm -rf "$pooler"' EXIT
for _ in $(seq 50); do
    [ -S "$pooler/.s.PGSQL.6432" ] && break
    sleep 0.1
done
for r in $(seq "$rounds"); do
    # unnamed statements for both: named ones do not pass an old PgBouncer
    for way in direct pooled; do
        stock pgwork "$(enough pgwork 10 8)"
        if [ $way = direct ]; then
            burn pgwork claim.pgwork 8 10 -M extended
        else
            burn pgwork claim.pgwork 8 10 -M extended -h "$pooler" -p 6432
        fi
        result pooler 'batch 10, 8 clients, unnamed statements' $way "$rate" jobs/s
    done
done
kill $pooler_pid
wait $pooler_pid || :
rm -rf "$pooler"
trap - EXIT
