# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034  # from bench.sh and lib.sh, and for these
# claim and complete by 8 and by 256 clients: direct, and through PgBouncer in transaction mode, which has 8 sessions for all
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
max_client_conn = 300
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
# unnamed statements for all: named ones do not pass an old PgBouncer
through() { # through WAY CLIENTS BATCH
    claims_of "$3"
    case $1 in
    direct) supplied pgwork claim.pgwork "$2" "$3" -M extended ;;
    pooled) supplied pgwork claim.pgwork "$2" "$3" -M extended -h "$pooler" -p 6432 ;;
    esac
}
for n in 10 $(if [ -z "$quick" ]; then echo 100 1000; fi); do
    for r in $(seq "$rounds"); do
        for c in 8 $(if [ -z "$quick" ]; then echo 256; fi); do
            for way in direct pooled; do
                calm through $way "$c" "$n"
                result pooler "batch $n, unnamed statements" "$way-$c" "$rate" jobs/s
                dry pooler "batch $n, unnamed statements" "$way-$c"
            done
        done
    done
done
kill $pooler_pid
wait $pooler_pid || :
rm -rf "$pooler"
trap - EXIT
