#!/bin/sh
# demo.sh [FOLDER]: hashes every file under FOLDER (/usr/include) through a queue. Two workers are killed
# while they hold jobs, one is frozen for longer than its lease, and one is killed under full load. Then
# every result is compared with sha256sum.
#
# `./run demo` runs it beside a private server. By hand: build/ in PATH, PGWORK_DSN or PGHOST, ... set;
# it makes a queue of its own and drops it.
#
# Ends with 0 only if each file has exactly one result, the result is right, and every late report was
# refused. After 10 s without progress it prints what the workers report; after 60 s it gives up.
set -eu
export LC_ALL=C.UTF-8

folder=${1:-/usr/include}
queue=demo.$$
truth=truth.$$
lease=2s
nap=5     # seconds that a command of w1, w2 and w3 takes, so that they hold jobs when they are killed
few=40    # with fewer files no worker is killed
patience=10 still=60 # seconds without progress until a report, and until the demo gives up

folder=$(cd "$folder" 2>/dev/null && pwd -P) || { echo "demo: $1 is not a folder" >&2; exit 2; }

tmp=$(mktemp -d "${TMPDIR:-/tmp}/pgwork-demo.XXXXXX")
pids=

# -- clean-up --------------------------------------------------------------------------------------

quit() {
    code=$?
    trap '' INT TERM HUP
    trap - EXIT
    for p in $pids; do kill -KILL "$p" 2>/dev/null || :; done
    pgwork -q queue drop --force "$queue" >/dev/null 2>&1 || :
    pgwork -q queue drop --force "$truth" >/dev/null 2>&1 || :
    rm -rf "$tmp"
    exit "$code"
}
trap quit EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
    bold=$(printf '\033[1m') green=$(printf '\033[32m') red=$(printf '\033[31m') plain=$(printf '\033[0m') wipe=$(printf '\r\033[K')
else
    bold='' green='' red='' plain='' wipe=''
fi

step() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
say() { printf '%s  %s\n' "$wipe" "$*"; }
die() { say "${red}$*${plain}"; exit 1; }

off=0
check() { # check TEXT FOUND EXPECTED
    if [ "$2" = "$3" ]; then say "${green}ok${plain}   $1: $2"; else
        say "${red}OFF${plain}  $1: $2, expected $3"
        off=1
    fi
}

# -- small tools -----------------------------------------------------------------------------------

now_ms() { echo $(($(date +%s%N) / 1000000)); }
sql() { PGOPTIONS='-c enable_nestloop=off' psql -XAtq -v ON_ERROR_STOP=1 ${PGWORK_DSN:+-d "$PGWORK_DSN"} -c "$1"; }
member() { sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"; } # of a line of JSON
count() { tr -cd '\0' <"$1" | wc -c | tr -d ' '; } # records that end with NUL
sum() { # sum MEMBER FILE...
    name=$1
    shift
    cat "$@" | member "$name" | awk '{ n += $1 } END { print n + 0 }'
}

# start NAME CMD...: runs it in the background, with stdout in NAME.out and stderr in NAME.err
start() {
    name=$1
    shift
    "$@" >"$tmp/$name.out" 2>"$tmp/$name.err" </dev/null &
    pids="$pids $!"
    eval "pid_$name=$!"
}

# worker NAME [slow]
worker() {
    if [ $# = 1 ]; then set -- "$1" sha256sum -b -- '{path}'; else
        # shellcheck disable=SC2016  # the inner shell's arguments
        set -- "$1" sh -c 'sleep "$1"; exec sha256sum -b -- "$2"' sh "$nap" '{path}'
    fi
    name=$1
    shift
    start "$name" pgwork --json work "$queue" -j2 --keep-output --holder "$name.$$" -- "$@"
}

pid_of() { eval "echo \$pid_$1"; }
lives() { kill -0 "$(pid_of "$1")" 2>/dev/null; }

# read_held NAME...: writes the ids that each worker holds to NAME.held; $empty names workers that hold none
read_held() {
    sql "SELECT holder, id FROM pgwork.job WHERE queue = '$queue' AND state = 'leased'" >"$tmp/leases"
    empty=
    for v; do
        sed -n "s/^$v\.$$|//p" "$tmp/leases" >"$tmp/$v.held"
        if [ "$(holds "$v")" = 0 ]; then empty="$empty $v"; fi
    done
}
holds() { wc -l <"$tmp/$1.held" | tr -d ' '; }

# trouble: prints the last messages of the workers and the findings of the doctor
trouble() {
    for log in "$tmp"/*.err; do
        if [ -s "$log" ]; then say "  $(basename "$log" .err): $(tail -n 1 "$log")"; fi
    done
    pgwork -q doctor 2>&1 | grep '^BAD' | grep -v ' durability ' | head -n 5 | while read -r found; do say "  doctor: $found"; done
}

# moves WHAT STATE: call it in a loop; it reports a STATE that does not change for long
moved_state='' moved_at=0 moved_told=0
moves() {
    moved_now=$(now_ms)
    if [ "$2" != "$moved_state" ]; then moved_state=$2 moved_at=$moved_now moved_told=0; fi
    moved_for=$(((moved_now - moved_at) / 1000))
    if [ $moved_for -ge $still ]; then
        trouble
        die "$1: no progress for $still s"
    fi
    if [ $moved_for -ge $patience ] && [ $moved_told = 0 ]; then
        moved_told=1
        say "$1: no progress for $patience s (the machine's load is $(cut -d ' ' -f 1 /proc/loadavg 2>/dev/null || echo unknown))"
        trouble
    fi
}

# stop_all NAME...: stops all workers while each holds jobs, and writes the ids of these jobs to NAME.held. No other worker and no
# reaper runs yet, so the workers keep these jobs.
stop_all() {
    while :; do
        read_held "$@"
        for v; do lives "$v" || { trouble; die "$v is not there any more"; }; done
        if [ -n "$empty" ]; then
            moves "no jobs yet for$empty" "$empty"
            sleep 0.1
            continue
        fi
        for v; do
            now_ms >"$tmp/$v.at"
            kill -STOP "$(pid_of "$v")"
        done
        sleep 0.2 # a report under way may still arrive
        read_held "$@"
        if [ -z "$empty" ]; then return; fi
        for v; do kill -CONT "$(pid_of "$v")"; done
    done
}

begun=$(now_ms)

# -- 1. the jobs -----------------------------------------------------------------------------------

step "1. Enqueue every file under $folder"
find "$folder" -type f -readable -print0 >"$tmp/names"
# A payload is JSON, which is UTF-8. A file whose name is not UTF-8 gets a link with a plain name.
grep -zax '\(.\|\n\)*' "$tmp/names" >"$tmp/paths" || :
grep -zavx '\(.\|\n\)*' "$tmp/names" >"$tmp/odd" || :
odd=$(count "$tmp/odd")
if [ "$odd" -gt 0 ]; then
    mkdir "$tmp/links"
    # shellcheck disable=SC2016  # the inner shell's variables
    xargs -0 sh -c 'for f; do n=$((n + 1)); ln -s "$f" "$0/$$.$n"; done' "$tmp/links" <"$tmp/odd"
    find "$tmp/links" -type l -print0 >>"$tmp/paths"
    say "$odd names are not UTF-8: their jobs use links to these files"
fi
files=$(count "$tmp/paths")
[ "$files" -gt 0 ] || die "there are no files under $folder"

pgwork -q migrate
pgwork queue create "$queue" --lease $lease --retention 1h --max-attempts 20 --backoff 100ms
from=$(now_ms)
pgwork enqueue "$queue" -0 --member path -f "$tmp/paths"
say "$files jobs in $(($(now_ms) - from)) ms, in one transaction"

# -- 2. the work -----------------------------------------------------------------------------------

victims='' hurt=''
work_from=$(now_ms)
if [ "$files" -ge $few ]; then
    step "2. Three workers claim jobs with a lease of $lease, and are killed or frozen while they hold them"
    say "each command takes $nap s, so that the workers hold jobs for a while"
    for name in w1 w2 w3; do worker $name slow; done
    stop_all w1 w2 w3
    for name in w1 w2; do
        kill -KILL "$(pid_of $name)"
        say "${bold}kill -9${plain} $name, which holds $(holds $name) jobs"
    done
    say "${bold}kill -STOP${plain} w3, which holds $(holds w3) jobs"
    victims='w1 w2' hurt='w1 w2 w3'
else
    step "2. With fewer than $few files no worker is hurt"
fi
step "3. Four other workers run two commands each, and two reapers requeue jobs of expired leases"
for name in r1 r2; do start $name pgwork --json reap; done
for name in w4 w5 w6 w7; do worker $name; done

count_jobs() { # one line of counts; done_jobs, open_jobs
    line=$(pgwork --json queue depth "$queue")
    ready=$(echo "$line" | member ready) leased=$(echo "$line" | member leased)
    delayed=$(echo "$line" | member delayed) done_jobs=$(echo "$line" | member "done")
    dead=$(echo "$line" | member dead)
    open_jobs=$((ready + leased + delayed))
    text=$(printf '%6d done %6d ready %4d leased %4d delayed %3d dead  %5.1f s' "$done_jobs" "$ready" \
        "$leased" "$delayed" "$dead" "$(echo "$(($(now_ms) - work_from))" | awk '{ print $1 / 1000 }')")
    if [ -t 1 ]; then printf '%s  %s' "$wipe" "$text"; else say "$text"; fi
}

pause=0.3
if [ "$files" -gt 20000 ]; then pause=2; fi # to count takes its time, too
while :; do
    count_jobs
    moves 'the work' "$done_jobs"
    case " $victims " in
    *' w4 '*) ;;
    *)
        if [ "$files" -ge $few ] && [ "$done_jobs" -ge $((files / 4)) ] && [ "$ready" -gt 0 ]; then
            kill -KILL "$(pid_of w4)"
            victims="$victims w4"
            say "${bold}kill -9${plain} w4 under full load, started w8 in its place"
            worker w8
        fi
        ;;
    esac
    [ "$open_jobs" -gt 0 ] || break
    sleep $pause
done
work_ms=$(($(now_ms) - work_from))
if [ -t 1 ]; then say "$text"; fi
case " $victims " in
*' w4 '*) ;;
*) [ -z "$hurt" ] || say 'w4 was not killed under full load: the work was over before' ;;
esac
if [ -n "$hurt" ]; then
    # By now others have done what w3 holds. It does not know, and reports its work.
    frozen_ms=$(($(now_ms) - $(cat "$tmp/w3.at")))
    kill -CONT "$(pid_of w3)"
    say "${bold}kill -CONT${plain} w3 after $((frozen_ms / 1000)).$((frozen_ms % 1000 / 100)) s"
fi

# All processes end by themselves and print their counts.
for name in w1 w2 w3 w4 w5 w6 w7 w8 r1 r2; do
    p=$(eval "echo \${pid_$name:-}")
    [ -n "$p" ] || continue
    case " $victims " in *" $name "*) wait "$p" 2>/dev/null || : ; continue ;; esac
    kill -TERM "$p" 2>/dev/null || :
    code=0
    wait "$p" || code=$?
    [ $code = 0 ] || { say "${red}$name ended with $code${plain}"; tail -n 3 "$tmp/$name.err"; off=1; }
done
pids=

# -- 4. the check ----------------------------------------------------------------------------------

step "4. Check every result against sha256sum"
# The expected results are stored through a queue, too, so that any file name can be compared.
# shellcheck disable=SC2016
xargs -0 sha256sum -z -b <"$tmp/paths" >"$tmp/sums" || die "sha256sum failed"
pgwork -q enqueue "$truth" -0 -f "$tmp/sums"
truths="SELECT left(payload->>'line', 64) AS hash, substr(payload->>'line', 67) AS path FROM pgwork.job WHERE queue = '$truth'"
results="SELECT id, attempt, holder, payload->>'path' AS path, ltrim(substr(output->>'stdout', 1, 65), '\\') AS hash FROM pgwork.job WHERE queue = '$queue' AND state = 'done'"
check "files with a result" "$(sql "SELECT count(DISTINCT path) FROM ($results) r")" "$files"
check "results" "$(sql "SELECT count(*) FROM ($results) r")" "$files"
check "right ones" "$(sql "SELECT count(*) FROM ($results) r JOIN ($truths) t USING (path) WHERE left(r.hash, 64) = t.hash")" "$files"
check "jobs left, or dead" "$(sql "SELECT count(*) FROM pgwork.job WHERE queue = '$queue' AND state <> 'done'")" 0

for name in $hurt; do
    taken=$(sql "SELECT count(*) FROM ($results) r WHERE id IN ($(paste -sd, "$tmp/$name.held")) AND holder <> '$name.$$'")
    check "jobs of $name that others have done" "$taken" "$(holds "$name")"
done
if [ -n "$hurt" ]; then
    lost=$(sum lost "$tmp/w3.out") refused=$(sum refused "$tmp/w3.out")
    if [ $((lost + refused)) -gt 0 ]; then
        say "${green}ok${plain}   w3 noticed that it lost $lost leases; $refused late reports were refused"
    else
        say "${red}OFF${plain}  w3 was late, and none of its reports was refused"
        off=1
    fi
fi

# -- 5. figures ------------------------------------------------------------------------------------

step "5. Figures"
say "$files jobs in $((work_ms / 1000)).$((work_ms % 1000 / 100)) s of work: $((files * 1000 / (work_ms + 1))) jobs/s, each a process of its own"
for name in $hurt; do
    say "$name lost $(sql "
        SELECT count(*) || ' jobs; rescued after ' || round(min(s), 1) || ' to ' || round(max(s), 1) || ' s'
          FROM (SELECT extract(epoch FROM finished_at) - $(cat "$tmp/$name.at") / 1000.0 AS s
                  FROM pgwork.job WHERE queue = '$queue' AND id IN ($(paste -sd, "$tmp/$name.held"))
                   AND holder <> '$name.$$') v")"
done
say "jobs by attempts: $(sql "SELECT string_agg(n || ' with ' || attempt, ', ' ORDER BY attempt) FROM (SELECT attempt, count(*) AS n FROM ($results) r GROUP BY 1) a")"
say "jobs requeued by the reapers: $(sum reaped "$tmp/r1.out" "$tmp/r2.out")"
say "total time $((($(now_ms) - begun) / 1000)) s"
echo
if [ $off = 0 ]; then say "${green}${bold}Each file has exactly one result, and it is right.${plain}"; else
    say "${red}${bold}Something is off.${plain}"
    exit 1
fi
