# lib.sh: what the questions share. Sourced.

sql() { psql -XqAt -v ON_ERROR_STOP=1 "$@"; }

server_facts() {
    echo "machine     $(getconf _NPROCESSORS_ONLN) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1), Linux $(uname -r)"
    echo "server      $(sql -c 'SHOW server_version')"
    for s in fsync synchronous_commit full_page_writes shared_buffers max_wal_size autovacuum autovacuum_naptime; do
        printf '%-28s%s\n' "  $s" "$(sql -c "SHOW $s")"
    done
    echo "rounds      $rounds of $seconds s each, interleaved; load average before: $(cut -d' ' -f1-3 /proc/loadavg 2>/dev/null)"
}

fresh_database() {
    export PGDATABASE=postgres
    sql -c 'DROP DATABASE IF EXISTS pgw_bench' -c 'CREATE DATABASE pgw_bench'
    export PGDATABASE=pgw_bench PGWORK_DSN="host=$PGHOST port=$PGPORT user=$PGUSER dbname=pgw_bench"
    pgwork migrate up >/dev/null
    sql -f "$here/sql/onetable.sql" -f "$here/sql/limit.sql"
    sql -c "SELECT pgwork.queue_create('q')" >/dev/null
}

# result QUESTION MEASURE CONTENDER VALUE UNIT
result() { printf '%s\t%s\t%s\t%s\t%s\n' "$@" >>"$out/results.tsv"; }

# pgbench_tps CLIENTS SECONDS SCRIPT [pgbench arguments]: transactions per second
pgbench_tps() {
    clients=$1 secs=$2 script=$3
    shift 3
    pgbench -n -M prepared -c "$clients" -j 2 -T "$secs" -f "$script" "$@" 2>"$out/pgbench.err" |
        sed -n 's/^tps = \([0-9.]*\).*/\1/p' | grep . || { cat "$out/pgbench.err" >&2; return 1; }
}

times() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.1f", a * b }'; }

# fill N [BYTES]: so many ready jobs in every SQL contender
fill() {
    n=$1 bytes=${2:-60}
    sql -c "SELECT onetable.enqueue($n, $bytes)" \
        -c "SELECT count(*) FROM pgwork.enqueue_many('q', ARRAY(SELECT jsonb_build_object('x', repeat('y', $bytes)) FROM generate_series(1, $n)))" \
        -c "INSERT INTO lim.row (payload) SELECT jsonb_build_object('x', repeat('y', $bytes)) FROM generate_series(1, $n)" >/dev/null
}

# top_up N: as many ready jobs as at the beginning, so that every round starts alike
top_up() {
    have=$(sql -c "SELECT least((SELECT count(*) FROM onetable.job WHERE state = 0), (SELECT count(*) FROM pgwork.live_job WHERE token IS NULL), (SELECT count(*) FROM lim.row))")
    while [ "$have" -lt "$1" ]; do fill 50000; have=$((have + 50000)); done
}

# script NAME <<SQL: a pgbench script
script() { cat >"$out/$1.pgbench"; }

claim_scripts() {
    # an answer and its commit make a claim: both here are statements of their own
    script claim.pgwork <<'S'
SELECT coalesce(array_agg(id) FILTER (WHERE attempt > 0)::text, '{}') ids, coalesce(array_agg(token) FILTER (WHERE attempt > 0)::text, '{}') tokens FROM pgwork.complete_and_claim('q', :ids, :tokens, :n, 'bench') \gset
S
    script claim.pgwork-apart <<'S'
SELECT coalesce(array_agg(id)::text, '{}') ids, coalesce(array_agg(token)::text, '{}') tokens FROM pgwork.claim('{q}', :n, 'bench') \gset
SELECT count(*) FROM pgwork.complete('q', :ids, :tokens);
S
    script claim.onetable <<'S'
SELECT coalesce(array_agg(id)::text, '{}') ids, coalesce(array_agg(token)::text, '{}') tokens FROM onetable.complete_and_claim(:ids, :tokens, :n) \gset
S
    script claim.onetable-apart <<'S'
SELECT coalesce(array_agg(id)::text, '{}') ids, coalesce(array_agg(token)::text, '{}') tokens FROM onetable.claim(:n) \gset
SELECT onetable.complete(:ids, :tokens);
S
    script claim.limit <<'S'
DELETE FROM lim.row WHERE ctid = ANY (ARRAY(SELECT ctid FROM lim.row ORDER BY id LIMIT :n FOR UPDATE SKIP LOCKED)) RETURNING id;
S
}
