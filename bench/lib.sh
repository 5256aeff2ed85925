# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034  # bench.sh sets what is used here, and the questions use what is set
# lib.sh: what the questions share. Sourced.

sql() { psql -XqAt -v ON_ERROR_STOP=1 "$@"; }
say() { printf '%s\n' "$*" >&2; }
left_out() { say "   left out: $*"; }

load_average() { cut -d' ' -f1-3 /proc/loadavg 2>/dev/null || uptime | sed 's/.*averages*: //'; }

server_facts() {
    echo "machine     $(getconf _NPROCESSORS_ONLN) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1), Linux $(uname -r)"
    echo "server      PostgreSQL $(sql -c 'SHOW server_version')"
    for s in fsync synchronous_commit full_page_writes wal_compression shared_buffers max_wal_size max_connections autovacuum autovacuum_naptime; do
        printf '  %-26s%s\n' "$s" "$(sql -c "SHOW $s")"
    done
}

# run_facts: when, what, and how often
run_facts() {
    echo "asked       $(date -u '+%Y-%m-%d %H:%M UTC'), $(git -C "$top" describe --always --dirty 2>/dev/null || echo 'no repository'): $(echo "$questions" | xargs)"
    echo "  rounds    $rounds of $seconds s each, interleaved; load average before: $(load_average)"
}

# in_database NAME: what follows asks there
in_database() { export PGDATABASE="$1" PGWORK_DSN="host=$PGHOST port=$PGPORT user=$PGUSER dbname=$1"; }

# migrated NAME: anew, and what follows asks there
migrated() {
    in_database postgres
    sql -c "DROP DATABASE IF EXISTS $1 WITH (FORCE)" -c "CREATE DATABASE $1" 2>"$out/drop.err" || { cat "$out/drop.err" >&2; return 1; }
    in_database "$1"
    pgwork migrate up >"$out/migrate.out" 2>&1 || { cat "$out/migrate.out" >&2; return 1; }
    sql -c "SELECT pgwork.queue_create('q'), pgwork.queue_create('rows'), pgwork.queue_create('bundles')" >/dev/null
    if [ -z "$engine1" ]; then return; fi
    PGWORK_SCHEMA=engine1 "$engine1/build/pgwork" migrate up >"$out/migrate.out" 2>&1 || { cat "$out/migrate.out" >&2; return 1; }
    sql -c "SELECT engine1.queue_create('q'), engine1.queue_create('rows', bulk => false), engine1.queue_create('bundles')" >/dev/null
}

# A smoke run keeps one database for all questions; so does a quick run, but for the 10,000 queues, which take twice as long beside remains.
fresh_database() {
    if [ "${PGDATABASE:-}" = pgw_bench ] && [ -n "$quick" ] && { [ -n "$smoke" ] || [ "$q" != queues ]; }; then return; fi
    migrated pgw_bench
    sql -f "$here/sql/onetable.sql" -f "$here/sql/limit.sql"
    # where jobs are that wait or run: what a claim touches
    hot=pgwork.live_job
    hot1='engine1.live_job, engine1.pack, engine1.pack_out'
}

# result QUESTION MEASURE CONTENDER VALUE UNIT
result() {
    case $4 in '' | *[!0-9.e+-]*) say "bench: no figure for: $1, $2, $3 ($4)"; return 1 ;; esac
    printf '%s\t%s\t%s\t%s\t%s\n' "$@" >>"$out/results.tsv"
}

calc() { awk "BEGIN { printf(\"%.4f\", $1) }"; }

# percentile P FILE: of a sorted file
percentile() { awk -v p="$1" '{ v[NR] = $1 } END { i = int(NR * p / 100 + 0.999999); print NR ? v[i < 1 ? 1 : i] : "" }' "$2"; }

now_ms() { date +%s%3N; }

# round CLIENTS BATCH: seconds that a round takes; connecting, what calls.awk does not count, and some calls of each come on top: where
# 256 sessions claim 1000 at a time, their first calls alone take 5 s
round() { echo $((seconds + $1 / 32 + $1 * $2 / 20000)); }

# What a plain statement needs so that its plan is the right one however empty the table was when it was prepared.
# pgwork's functions say this for themselves; the others are given it.
settled='-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c jit=off'

# timed SCRIPT CLIENTS -T|-t N [pgbench arguments]: for so many seconds, or calls of each client. Sets calls (those that did
# something) and tps (while it counted, see calls.awk); $out/calls has the ms that each of these took, $out/by_second their
# rate in every second.
timed() {
    ti_script=$1 ti_clients=$2 ti_how=$3 ti_n=$4
    shift 4
    rm -f "$out"/log.*
    ti_until=''
    case $ti_script in
    claim.pgwork-lib* | claim.engine1-lib*) # the library instead of pgbench, for the same log
        for ti_given in "$@"; do case $ti_given in n=*) ti_batch=${ti_given#n=} ;; esac; done
        of_engine "${ti_script#claim.}" claim "$(queue_of "$ti_script")" "$ti_clients" "$ti_batch" "$ti_how" "$ti_n" "$out/log" || return 1
        ;;
    *) with_pgbench "$@" || return 1 ;;
    esac
    # completes what the call before has claimed
    case $ti_script in claim.*-2calls) ti_idle='' ;; claim.pgwork* | claim.engine1* | *-1call) ti_idle=1 ;; *) ti_idle='' ;; esac
    cat "$out"/log.* | awk -v until="$ti_until" -v idle=$ti_idle -v calls="$out/calls" -v by_second="$out/by_second" -f "$here/calls.awk" >"$out/calls.rate"
    read -r calls tps <"$out/calls.rate"
    rm -f "$out"/log.*
}

# with_pgbench [arguments]: the rest of what timed() was given. Sets ti_until.
with_pgbench() {
    PGOPTIONS="$settled${also:+ $also}" pgbench -n -M prepared -c "$ti_clients" -j 2 "$ti_how" "$ti_n" -f "$out/$ti_script.pgbench" \
        --log --log-prefix="$out/log" "$@" >"$out/pgbench.out" 2>"$out/pgbench.err" || { cat "$out/pgbench.err" >&2; return 1; }
    if [ "$ti_how" = -t ]; then return; fi
    ti_until=$(sed -n 's/^initial connection time = \([0-9.]*\) ms/\1/p' "$out/pgbench.out") && ti_until=$(calc "$ti_n - ${ti_until:-0} / 1000")
}

# bench_run CLIENTS SECONDS SCRIPT [pgbench arguments]: timed(); in a smoke run, three calls of two clients
bench_run() {
    br_clients=$1 br_secs=$2 br_script=$3
    shift 3
    if [ -n "$smoke" ]; then
        if [ "$br_clients" -gt 2 ]; then br_clients=2; fi # to connect costs more than all that they do
        set -- -t 3 "$@"
    else
        set -- -T "$br_secs" "$@"
    fi
    timed "$br_script" "$br_clients" "$@"
}

# calm CMD...: a round, asked again, twice at most, when a hypervisor gave others more than a twentieth of the machine meanwhile,
# unless it took ten minutes
calm() {
    for ca_more in 2 1 0; do
        ca_before=$(machine_time) ca_began=$(now_ms)
        "$@"
        ca_lost=$(echo "$ca_before $(machine_time)" | awk '{ print ($3 > $1 ? int(100 * ($4 - $2) / ($3 - $1)) : 0) }')
        if [ "$ca_lost" -le 5 ] || [ -n "$smoke" ]; then return; fi
        say "bench: others had $ca_lost % of the machine: $*"
        if [ $ca_more = 0 ] || [ $(($(now_ms) - ca_began)) -gt 600000 ]; then return; fi
        say '       it is asked again'
    done
}

# machine_time: all of it, and what others had (Linux says so)
machine_time() { awk '$1 == "cpu" { print $2 + $3 + $4 + $5 + $6 + $7 + $8 + $9, $9; exit }' /proc/stat 2>/dev/null || echo 0 0; }

# -- jobs in every SQL contender --------------------------------------------------------------------

tables_of() {
    case $1 in
    pgwork*) echo "$hot" ;;
    engine1*) echo "$hot1" ;;
    onetable*) echo onetable.job ;;
    limit-queues) echo lim.of_queue ;;
    limit*) echo lim.row ;;
    esac
}

# queue_of WHO
queue_of() { case $1 in *-rows) echo rows ;; *-bundles) echo bundles ;; *) echo q ;; esac; }

# schema_of WHO: of ours
schema_of() { case $1 in engine1*) echo engine1 ;; *) echo pgwork ;; esac; }

# of_engine WHO PROGRAM ARGS: a program of that engine's library
of_engine() {
    case $1 in
    engine1*) oe_program=engine1-$2; shift 2; PGWORK_SCHEMA=engine1 "$oe_program" "$@" ;;
    *) shift; "$@" ;;
    esac
}

# beside WHO...: with each of ours the same of the first engine, where it takes part
beside() {
    for be in "$@"; do
        echo "$be"
        case $be in pgwork*) if [ -n "$engine1" ]; then echo "engine1${be#pgwork}"; fi ;; esac
    done
}

# claims_of N: jobs that are enqueued from now on are to be claimed N at a time. From 100 on, they are enqueued together, and share rows;
# fewer, one by one. (Those of the queue `rows` never share rows, those of `bundles` always do.) The first engine learned it from claims.
claims_of() {
    if [ "$1" -ge 100 ]; then together=1; else together=''; fi
    if [ -n "$engine1" ]; then sql -c "UPDATE engine1.queue SET large_claims = $1 >= 100 OR name = 'bundles', learned_at = clock_timestamp() WHERE name IN ('q', 'bundles')"; fi
}

# rows BATCH: the contender whose jobs do not share rows, where others do
rows() { if [ "$1" -ge 100 ] && [ -z "$look" ]; then echo pgwork-rows; fi; }

# small BATCH: the library, where its statements are others than the functions'
small() { if [ "$1" -le 32 ]; then echo pgwork-lib; fi; }

# bundled WHO BATCH: do its jobs?
bundled() { case $1 in *-bundles) ;; *-rows) false ;; pgwork* | engine1*) [ "$2" -ge 100 ] ;; *) false ;; esac; }

# Waiting or running: for pgwork its own view, whatever its tables are, and no queues of other contenders.
unfinished() {
    case $1 in
    *-rows | *-bundles) sql -c "SELECT count(*) FROM $(schema_of "$1").job WHERE queue = '$(queue_of "$1")'" ;;
    pgwork* | engine1*) sql -c "SELECT count(*) FROM $(schema_of "$1").job WHERE queue NOT IN ('rows', 'bundles')" ;;
    *) sql -c "SELECT count(*) FROM $(tables_of "$1")" ;;
    esac
}

# size_of WHO: tables and indexes, MB
size_of() { sql -c "SELECT sum(pg_total_relation_size(btrim(t))) / 1048576.0 FROM unnest(string_to_array('$(tables_of "$1")', ',')) t"; }

empty() { sql -c "TRUNCATE onetable.job, lim.row, $hot${engine1:+, $hot1}"; }

# put WHO N [BYTES]: so many more ready jobs. Ours in one transaction, too, but by 10,000 or a megabyte a call: an array has to fit into memory.
# Jobs that share no rows are put where enqueue() would put them, by one statement.
put() {
    pu_call=$((1000000 / ${3:-60}))
    if [ $pu_call -gt 10000 ]; then pu_call=10000; fi
    case $1-$together in
    pgwork-bundles* | pgwork*-1 | engine1*) pu_shares=1 ;;
    *) pu_shares='' ;;
    esac
    case $1 in pgwork*-rows) pu_shares='' ;; esac
    case $1-$pu_shares in
    # what depends on g is called anew for each
    pgwork*-1 | engine1*) sql -c "SELECT count(*) FROM generate_series(0, ($2 - 1) / $pu_call) g CROSS JOIN LATERAL
                       $(schema_of "$1").enqueue_many('$(queue_of "$1")', ARRAY(SELECT jsonb_build_object('x', repeat('y', ${3:-60})) FROM generate_series(1, least($2 - $pu_call * g, $pu_call))))" >/dev/null ;;
    pgwork*) sql -c "INSERT INTO pgwork.live_job (queue, payload) SELECT q.id, jsonb_build_object('x', repeat('y', ${3:-60}))
                       FROM pgwork.queue q CROSS JOIN generate_series(1, $2) WHERE q.name = '$(queue_of "$1")'" ;;
    onetable*) sql -c "SELECT onetable.enqueue($2, ${3:-60})" >/dev/null ;;
    limit*) sql -c "INSERT INTO lim.row (payload) SELECT jsonb_build_object('x', repeat('y', ${3:-60})) FROM generate_series(1, $2)" ;;
    esac
}

# fill_queue WHO N [BYTES]: N ready jobs at least and none leased, so that every round starts alike
fill_queue() {
    case $1 in
    pgwork*) sql -c 'DELETE FROM pgwork.live_job WHERE token IS NOT NULL' ;;
    engine1*) sql -c 'DELETE FROM engine1.live_job WHERE token IS NOT NULL' -c 'TRUNCATE engine1.pack, engine1.pack_out' ;;
    onetable*) sql -c 'DELETE FROM onetable.job WHERE state <> 0' ;;
    esac
    st_have=$(unfinished "$1")
    if [ "$st_have" -lt "$2" ]; then put "$1" $(($2 - st_have)) "${3:-}"; fi
    sql -c "VACUUM ANALYZE $(tables_of "$1")"
}

# what the scripts know of their jobs before the first claim
nothing_claimed='-D ids={} -D tokens={} -D token=0'

# burn WHO SCRIPT CLIENTS BATCH [pgbench arguments]: jobs a second, from the rows that are gone: what was claimed only
# does not count. Sets rate, per_call (jobs), and ran_out where no contender could show more.
burn() {
    bu_who=$1 bu_script=$2 bu_clients=$3 bu_n=$4
    shift 4
    bu_before=$(unfinished "$bu_who")
    # shellcheck disable=SC2086  # words
    bench_run "$bu_clients" "$(round "$bu_clients" "$bu_n")" "$bu_script" -D n="$bu_n" $nothing_claimed "$@"
    bu_after=$(unfinished "$bu_who")
    ran_out=''
    if [ "$bu_after" -le $((bu_clients * bu_n)) ] && [ -z "$smoke" ]; then ran_out=1; say "bench: $bu_who ran out of jobs: its figure is too low"; fi
    per_call=0
    if [ "$calls" -gt 0 ]; then per_call=$(calc "($bu_before - $bu_after) / $calls"); fi
    rate=$(calc "$per_call * $tps")
}

# supplied WHO SCRIPT CLIENTS BATCH [pgbench arguments]: burn() from a queue that is full enough. If a fast machine empties it, again with
# twice as many jobs, three times at most. The next round begins with that number.
supplied() {
    su_plenty=$(echo "plenty_$1_$3_$4" | tr -c 'a-z0-9\n' _)
    for su_more in 3 2 1 0; do
        eval "su_times=\${$su_plenty:-1}"
        # shellcheck disable=SC2154  # by eval
        fill_queue "$1" $(($(enough "$1" "$4" "$3") * su_times))
        burn "$@"
        if [ -z "$ran_out" ] || [ $su_more = 0 ]; then return; fi
        eval "$su_plenty=$((su_times * 2))"
        say '       it is asked again, out of more'
    done
}

# dry QUESTION MEASURE WHO: says beside a figure of burn() that it is too low
dry() { if [ -n "$ran_out" ]; then result "$1" "ran out of jobs, $2" "$3" 1 times; fi; }

# done_in JOBS WHO BATCH CLIENTS: claims and completes just these; sets rate
done_in() {
    di_calls=$(($1 / $3 / $4))
    # shellcheck disable=SC2086  # words
    timed "claim.$2" "$4" -t $((di_calls > 1 ? di_calls : 2)) -D n="$3" $nothing_claimed
    rate=$(calc "$tps * $3")
}

# reach WHO BATCH RATE: what that rate is for this contender
reach() {
    if bundled "$1" "$2"; then echo $(($3 * ($2 > 100 ? 3 : 2))); return; fi
    case $1 in onetable*) echo $(($3 * 2 / 3)) ;; *) echo "$3" ;; esac
}

# enough WHO BATCH CLIENTS: more jobs than it can do in a round
enough() {
    if [ -n "$smoke" ]; then echo 1000; return; fi
    case $2 in
    1) en_rate=25000 en_more=0 ;;
    10) en_rate=100000 en_more=0 ;;
    100) en_rate=250000 en_more=50000 ;;
    *) en_rate=350000 en_more=100000 ;;
    esac
    echo $(($(round "$3" "$2") * $(reach "$1" "$2" $en_rate) + en_more + $2 * $3))
}

# -- CPU time ---------------------------------------------------------------------------------------

# Seconds that the server has used: its processes of now and those that ended. Empty where there is no /proc, or the server elsewhere.
server_cpu() {
    sc_pm=$(head -n 1 "$data_directory/postmaster.pid" 2>/dev/null) || return 0
    [ -r "/proc/$sc_pm/stat" ] || return 0
    sc_ended=
    for _ in 1 2 3 4 5; do # again if a process ended meanwhile: it would count twice, or not at all
        sc_sum=$(cat /proc/[0-9]*/stat 2>/dev/null | sed 's/^\([0-9]*\) (.*) /\1 /' |
            awk -v pm="$sc_pm" -v hz="$(getconf CLK_TCK)" '$1 == pm { t += $15 + $16 } $1 == pm || $3 == pm { t += $13 + $14 } END { printf "%.2f", t / hz }')
        sc_now=$(sed 's/.*) //' "/proc/$sc_pm/stat" 2>/dev/null | cut -d ' ' -f 14,15)
        if [ "$sc_now" = "$sc_ended" ]; then break; fi
        sc_ended=$sc_now
    done
    echo "$sc_sum"
}

# client_cpu CMD...: runs it, and leaves the seconds that it used in client_seconds
client_cpu() {
    ("$@"; times >"$out/times") || return 1
    client_seconds=$(awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, p, "m"); sub("s", "", p[2]); t += p[1] * 60 + p[2] } printf "%.2f", t }' "$out/times")
}

# noop WHO JOBS THREADS PREFETCH [MS]: the worker runtime in a process of its own; sets rate (jobs a second), cpu (us of
# it a job) and peak (MB of its resident memory)
noop() {
    no_who=$1
    shift
    of_engine "$no_who" noop_worker "$(queue_of "$no_who")" "$@" >"$out/noop.out"
    read -r rate cpu peak _ <"$out/noop.out"
}

# -- scripts ----------------------------------------------------------------------------------------

# script NAME <<SQL: a pgbench script
script() { cat >"$out/$1.pgbench"; }
# by_turns NAME ONE OTHER: a script that runs these two by turns; pgbench needs -D turn=0
by_turns() {
    printf '%s\n' '\if :turn = 0' '\set turn 1' "$(cat "$out/$2.pgbench")" '\else' '\set turn 0' "$(cat "$out/$3.pgbench")" '\endif' | script "$1"
}
# hold_snapshot: in the background, until end_snapshot
hold_snapshot() {
    PGAPPNAME=snapshot psql -XqAt -v ON_ERROR_STOP=1 -c 'BEGIN ISOLATION LEVEL REPEATABLE READ' -c 'SELECT 1' -c 'SELECT pg_sleep(100000)' >/dev/null 2>&1 &
    snapshot=$!
    until [ "$(sql -c "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'snapshot' AND query LIKE '%pg_sleep%'")" = 1 ]; do
        kill -0 "$snapshot" || { say 'bench: no snapshot is held'; return 1; }
        sleep 0.05
    done
}
end_snapshot() {
    sql -c "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'snapshot'" >/dev/null
    wait "$snapshot" || :
}

# claim_script WHO ROWS STATEMENT COMPLETION: more than ROWS jobs may come as batch rows. What the library holds in its memory is text here.
claim_script() {
    script "claim.$1" <<S
\\if :n > $2
WITH c AS ($3)
SELECT coalesce('{' || string_agg(coalesce(btrim(ids::text, '{}'), id::text), ',') || '}', '{}') ids,
       coalesce('{' || CASE count(*) WHEN 1 THEN min(token::text)
                       ELSE rtrim(string_agg(repeat(token || ',', coalesce(cardinality(ids), 1)), ''), ',') END || '}', '{}') tokens
  FROM c WHERE attempt > 0 \\gset
\\else
WITH c AS ($3)
SELECT $one_by_one FROM c WHERE attempt > 0 \\gset
\\endif
${4:-}
S
}

# put_scripts PAYLOAD: an expression of SQL
put_scripts() {
    for ps in pgwork:q pgwork-bundles:bundles; do
        script "put.${ps%:*}" <<S
SELECT count(*) FROM pgwork.enqueue_many('${ps#*:}', ARRAY(SELECT $1 FROM generate_series(1, :n::int)));
S
    done
    script put.pgwork-rows <<S
SELECT count(*) FROM generate_series(1, :n::int) g CROSS JOIN LATERAL pgwork.enqueue('rows', CASE WHEN g > 0 THEN $1 END);
S
    for ps in onetable.job lim.row; do
        script "put.$(echo "$ps" | sed 's/^lim\..*/limit/; s/\..*//')" <<S
INSERT INTO $ps (payload) SELECT $1 FROM generate_series(1, :n::int);
S
    done
    for ps in "$out"/put.pgwork*.pgbench; do sed 's/pgwork\./engine1./g' "$ps" | script "$(basename "$ps" .pgbench | sed 's/pgwork/engine1/')"; done
}

# lib_claim TREE QUEUE: the statement that the library sends
lib_claim() {
    sed "/^--/d; s/\$1/'$2'/; s/\$2/:ids/g; s/\$3/:tokens/; s/\$4/:n/; s/\$5/'bench'/; s/\$6/NULL/; s/\$7/false/" "$1/src/sql/job_complete_and_claim.sql"
}

# The claim of the one-table queue: rows are locked under a limit and updated where they lie, which is faster than a join with what
# was locked; plain statements are faster than functions.
onetable_claim="UPDATE onetable.job SET state = 1, attempt = attempt + 1, token = (SELECT (random() * 9e18)::bigint + 1), lease_until = clock_timestamp() + interval '30 s'
 WHERE ctid = ANY (ARRAY(SELECT ctid FROM onetable.job WHERE state = 0 AND run_at <= clock_timestamp() ORDER BY priority, run_at, id LIMIT :n FOR UPDATE SKIP LOCKED))
RETURNING id, token, attempt, priority, kind, payload, lease_until"
onetable_complete='DELETE FROM onetable.job WHERE id = ANY (:ids) AND token = :token'

# An answer and its commit make a claim: every statement here is a transaction of its own.
claim_scripts() {
    one_by_one="coalesce(array_agg(id)::text, '{}') ids, coalesce(array_agg(token)::text, '{}') tokens"
    for cs in '' -rows -bundles; do
        claim_script "pgwork$cs" 1 "$(lib_claim "$top" "$(queue_of "$cs")")"
        if [ -n "$engine1" ]; then claim_script "engine1$cs" 32 "$(lib_claim "$engine1" "$(queue_of "$cs")" | sed 's/pgwork\./engine1./')"; fi
    done
    claim_script pgwork-2calls 1 "SELECT * FROM pgwork.claim_batch('{q}', :n, 'bench')" "SELECT count(*) FROM pgwork.complete('q', :ids, :tokens);"
    claim_script engine1-2calls 32 "SELECT * FROM engine1.claim_batch('{q}', :n, 'bench')" "SELECT count(*) FROM engine1.complete('q', :ids, :tokens);"
    script claim.onetable <<S
WITH c AS ($onetable_claim)
SELECT coalesce(array_agg(id)::text, '{}') ids, coalesce(max(token), 0) token FROM c \\gset
$onetable_complete;
S
    # the delete runs whether anybody asks for its rows or not
    script claim.onetable-1call <<S
WITH d AS ($onetable_complete), c AS ($onetable_claim)
SELECT coalesce(array_agg(id)::text, '{}') ids, coalesce(max(token), 0) token FROM c \\gset
S
    script claim.limit <<'S'
DELETE FROM lim.row WHERE ctid = ANY (ARRAY(SELECT ctid FROM lim.row ORDER BY id LIMIT :n FOR UPDATE SKIP LOCKED)) RETURNING id;
S
    script put.pgwork-one <<'S'
SELECT * FROM pgwork.enqueue('q', :payload::jsonb);
S
    script put.onetable-one <<'S'
INSERT INTO onetable.job (payload) VALUES (:payload::jsonb);
S
    script put.limit-one <<'S'
INSERT INTO lim.row (payload) VALUES (:payload::jsonb);
S
    script put.limit-nothing <<'S'
SELECT 1;
S
    put_scripts ':payload::jsonb'
}

# payload BYTES: a pgbench variable
payload() { printf '{"x": "%s"}' "$(head -c "$1" /dev/zero | tr '\0' y)"; }

# -- other queues by their own clients ---------------------------------------------------------------

processes=$(getconf _NPROCESSORS_ONLN)
if [ "$processes" -gt 2 ]; then processes=2; fi
ours_for() { echo $((($1 > 100 ? 2 : 4) * processes)); } # ours_for BATCH: processes

# npm_peers: Graphile Worker and pg-boss take part. Sets node, the release of Node.js that they ask for.
npm_peers() {
    export PEER_MODULES="$top/build/npm"
    if ! command -v npm >/dev/null; then
        left_out 'Graphile Worker and pg-boss: npm is not here'
        return 1
    fi
    mkdir -p "$PEER_MODULES"
    if [ -n "$smoke" ] || ! { [ -d "$PEER_MODULES/node_modules" ] && cmp -s "$here/npm/package-lock.json" "$PEER_MODULES/package-lock.json"; }; then
        if [ -n "$quick" ]; then
            left_out 'Graphile Worker and pg-boss: a quick run installs nothing'
            return 1
        fi
        cp "$here/npm/package.json" "$here/npm/package-lock.json" "$PEER_MODULES/"
        if ! (cd "$PEER_MODULES" && npm ci --no-audit --no-fund) >"$out/npm.log" 2>&1; then
            left_out "Graphile Worker and pg-boss: npm ci failed ($out/npm.log)"
            return 1
        fi
    fi
    node="$PEER_MODULES/node_modules/node/bin/node"
    if [ ! -x "$node" ]; then node=node; fi
}
forget_peers() { sql -c 'SET client_min_messages = warning' -c 'DROP SCHEMA IF EXISTS graphile_worker, pgboss CASCADE'; }

# workers_burn WHO QUEUE JOBS BATCH: as many of our workers as for such batches are fastest, each in a process; sets rate
workers_burn() {
    wb_ours=$(ours_for "$4") wb_pids=''
    for p in $(seq "$wb_ours"); do
        of_engine "$1" noop_worker "$2" $(($3 / wb_ours)) 0 "$4" >"$out/noop.$p" &
        wb_pids="$wb_pids $!"
    done
    for p in $wb_pids; do wait "$p" || { say "bench: a worker of ours failed"; return 1; }; done
    rate=$(awk -v jobs="$3" '!begin || $4 < begin { begin = $4 } $5 > end { end = $5 } END { print jobs * 1000 / (end - begin) }' "$out"/noop.?)
    rm -f "$out"/noop.?
}
