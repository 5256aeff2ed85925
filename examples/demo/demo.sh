#!/bin/sh
# demo.sh [FOLDER]: hashes every file under FOLDER (/usr/include) by a queue, while workers are killed
# and one is frozen for longer than its lease; then checks every result against sha256sum.
#
# `./run demo` runs it beside a private server. By hand: build/ in PATH, PGWORK_DSN or PGHOST, ... set;
# it makes a queue of its own and drops it.
#
# Ends with 0 only when each file has exactly one result, the right one, and nobody who came late got
# a result in.
set -eu
export LC_ALL=C.UTF-8

folder=${1:-/usr/include}
queue=demo.$$
truth=truth.$$
lease=2s
limit=120 # seconds until the demo gives up

folder=$(cd "$folder" 2>/dev/null && pwd -P) || { echo "demo: $1 is no folder" >&2; exit 2; }

tmp=$(mktemp -d "${TMPDIR:-/tmp}/pgwork-demo.XXXXXX")
pids=

# -- leaving ---------------------------------------------------------------------------------------

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
        say "${red}OFF${plain}  $1: $2, not $3"
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

# start NAME CMD...: in the background; its JSON goes to NAME.out, its words to NAME.err
start() {
    name=$1
    shift
    "$@" >"$tmp/$name.out" 2>"$tmp/$name.err" </dev/null &
    pids="$pids $!"
    eval "pid_$name=$!"
}

# Commands that last: with few files the work would be over before anybody could be hurt.
worker() { # worker NAME
    if [ "$nap" = 0 ]; then set -- "$1" sha256sum -b -- '{path}'; else
        # shellcheck disable=SC2016  # the inner shell's arguments
        set -- "$1" sh -c 'sleep "$1"; exec sha256sum -b -- "$2"' sh "$nap" '{path}'
    fi
    name=$1
    shift
    start "$name" pgwork --json work "$queue" -j2 --keep-output --holder "$name.$$" -- "$@"
}

pid_of() { eval "echo \$pid_$1"; }

# The ids that a worker holds.
held() { sql "SELECT id FROM pgwork.job WHERE queue = '$queue' AND state = 'leased' AND holder = '$1.$$'"; }

# freeze NAME: stopped at a moment when it holds jobs; their ids go to NAME.held
freeze() {
    tries=0
    while [ $tries -lt 100 ]; do
        now_ms >"$tmp/$1.at" # not afterwards: to ask takes long on a busy machine
        kill -STOP "$(pid_of "$1")" || die "$1 is not there any more: $(cat "$tmp/$1.err")"
        sleep 0.2 # a report under way may still arrive
        held "$1" >"$tmp/$1.held"
        if [ -s "$tmp/$1.held" ]; then return; fi
        kill -CONT "$(pid_of "$1")"
        sleep 0.05
        tries=$((tries + 1))
    done
    die "$1 never held a job"
}

begun=$(now_ms)

# -- 1. the jobs -----------------------------------------------------------------------------------

step "1. Enqueue every file under $folder"
find "$folder" -type f -readable -print0 >"$tmp/names"
# A payload is JSON and JSON is UTF-8. A name that is not travels as a link with a plain one.
grep -zax '\(.\|\n\)*' "$tmp/names" >"$tmp/paths" || :
grep -zavx '\(.\|\n\)*' "$tmp/names" >"$tmp/odd" || :
odd=$(count "$tmp/odd")
if [ "$odd" -gt 0 ]; then
    mkdir "$tmp/links"
    # shellcheck disable=SC2016  # the inner shell's variables
    xargs -0 sh -c 'for f; do n=$((n + 1)); ln -s "$f" "$0/$$.$n"; done' "$tmp/links" <"$tmp/odd"
    find "$tmp/links" -type l -print0 >>"$tmp/paths"
    say "$odd names are not UTF-8: they travel as links"
fi
files=$(count "$tmp/paths")
[ "$files" -gt 0 ] || die "there are no files under $folder"
nap=0 few=40
if [ "$files" -ge $few ] && [ "$files" -lt 4000 ]; then nap=$(echo "$files" | awk '{ printf "%.2f", 56 / $1 }'); fi

pgwork -q migrate
pgwork queue create "$queue" --lease $lease --retention 1h --max-attempts 20 --backoff 100ms
from=$(now_ms)
pgwork enqueue "$queue" -0 --member path -f "$tmp/paths"
say "$files jobs in $(($(now_ms) - from)) ms, in one transaction"

# -- 2. the work -----------------------------------------------------------------------------------

step "2. Four workers with two commands each, two reapers, leases of $lease"
if [ "$nap" != 0 ]; then say "few files: each command naps $nap s first, so that there is a middle"; fi
for name in r1 r2; do start $name pgwork --json reap; done
work_from=$(now_ms)
for name in w1 w2 w3 w4; do worker $name; done

spare=4
replace() { # a worker in place of one that is gone
    spare=$((spare + 1))
    worker w$spare
    say "started w$spare in its place"
}

look() { # one line of counts; done_jobs, open_jobs
    line=$(pgwork --json queue depth "$queue")
    ready=$(echo "$line" | member ready) leased=$(echo "$line" | member leased)
    delayed=$(echo "$line" | member delayed) done_jobs=$(echo "$line" | member "done")
    dead=$(echo "$line" | member dead)
    open_jobs=$((ready + leased + delayed))
    text=$(printf '%6d done %6d ready %4d leased %4d delayed %3d dead  %5.1f s' "$done_jobs" "$ready" \
        "$leased" "$delayed" "$dead" "$(echo "$(($(now_ms) - work_from))" | awk '{ print $1 / 1000 }')")
    if [ -t 1 ]; then printf '%s  %s' "$wipe" "$text"; else say "$text"; fi
}

victims=
kill_one() { # kill_one NAME
    freeze "$1"
    kill -KILL "$(pid_of "$1")"
    victims="$victims $1"
    say "${bold}kill -9${plain} $1, which holds $(grep -c . "$tmp/$1.held") jobs"
    replace
}

stage=0
while :; do
    look
    [ $(($(now_ms) - begun)) -lt $((limit * 1000)) ] || die "not done within $limit s"
    if [ "$files" -ge $few ]; then
        case $stage in
        0) [ "$done_jobs" -lt $((files / 10)) ] || { kill_one w1; stage=1; } ;;
        1) [ "$done_jobs" -lt $((files / 4)) ] || { kill_one w2; stage=2; } ;;
        2)
            if [ "$done_jobs" -ge $((files * 2 / 5)) ]; then
                freeze w3
                stage=3
                say "${bold}kill -STOP${plain} w3, which holds $(grep -c . "$tmp/w3.held") jobs"
                replace
            fi
            ;;
        esac
    fi
    [ "$open_jobs" -gt 0 ] || break
    sleep 0.3
done
work_ms=$(($(now_ms) - work_from))
if [ -t 1 ]; then say "$text"; fi

if [ $stage = 3 ]; then
    # By now others have done what w3 holds. It does not know, and reports its work.
    frozen_ms=$(($(now_ms) - $(cat "$tmp/w3.at")))
    kill -CONT "$(pid_of w3)"
    say "${bold}kill -CONT${plain} w3 after $((frozen_ms / 1000)).$((frozen_ms % 1000 / 100)) s"
elif [ "$files" -ge $few ]; then
    die "the work was done before all workers were hurt (stage $stage of 3)"
else
    say "with less than $few files no worker is hurt"
fi

# Everybody ends by itself and tells what it did.
for name in w1 w2 w3 w4 w5 w6 w7 r1 r2; do
    p=$(eval "echo \${pid_$name:-}")
    [ -n "$p" ] || continue
    case " $victims " in *" $name "*) wait "$p" 2>/dev/null || : ; continue ;; esac
    kill -TERM "$p" 2>/dev/null || :
    code=0
    wait "$p" || code=$?
    [ $code = 0 ] || { say "${red}$name ended with $code${plain}"; tail -n 3 "$tmp/$name.err"; off=1; }
done
pids=

# -- 3. the check ----------------------------------------------------------------------------------

step "3. Check every result against sha256sum"
# The truth goes through the same door as the jobs, so no name is too odd for the comparison.
# shellcheck disable=SC2016
xargs -0 sha256sum -z -b <"$tmp/paths" >"$tmp/sums" || die "sha256sum failed"
pgwork -q enqueue "$truth" -0 -f "$tmp/sums"
truths="SELECT left(payload->>'line', 64) AS hash, substr(payload->>'line', 67) AS path FROM pgwork.job WHERE queue = '$truth'"
results="SELECT id, attempt, holder, payload->>'path' AS path, ltrim(substr(output->>'stdout', 1, 65), '\\') AS hash FROM pgwork.job WHERE queue = '$queue' AND state = 'done'"
check "files with a result" "$(sql "SELECT count(DISTINCT path) FROM ($results) r")" "$files"
check "results" "$(sql "SELECT count(*) FROM ($results) r")" "$files"
check "right ones" "$(sql "SELECT count(*) FROM ($results) r JOIN ($truths) t USING (path) WHERE left(r.hash, 64) = t.hash")" "$files"
check "jobs left, or dead" "$(sql "SELECT count(*) FROM pgwork.job WHERE queue = '$queue' AND state <> 'done'")" 0

if [ $stage = 3 ]; then
    taken=$(sql "SELECT count(*) FROM ($results) r WHERE id IN ($(paste -sd, "$tmp/w3.held")) AND holder <> 'w3.$$'")
    check "jobs of w3 that others had done when it came back" "$taken" "$(grep -c . "$tmp/w3.held")"
    lost=$(sum lost "$tmp/w3.out") refused=$(sum refused "$tmp/w3.out")
    if [ $((lost + refused)) -gt 0 ]; then
        say "${green}ok${plain}   w3 was told that it lost $lost leases; $refused late reports were refused"
    else
        say "${red}OFF${plain}  w3 came late, and nobody told it"
        off=1
    fi
fi

# -- 4. figures ------------------------------------------------------------------------------------

step "4. Figures"
say "$files jobs in $((work_ms / 1000)).$((work_ms % 1000 / 100)) s of work: $((files * 1000 / (work_ms + 1))) jobs/s, each a process of its own"
for name in $victims w3; do
    [ -s "$tmp/$name.at" ] || continue
    say "$name lost $(sql "
        SELECT count(*) || ' jobs; rescued after ' || round(min(s), 1) || ' to ' || round(max(s), 1) || ' s'
          FROM (SELECT extract(epoch FROM finished_at) - $(cat "$tmp/$name.at") / 1000.0 AS s
                  FROM pgwork.job WHERE queue = '$queue' AND id IN ($(paste -sd, "$tmp/$name.held"))
                   AND holder <> '$name.$$') v")"
done
say "jobs by attempts: $(sql "SELECT string_agg(n || ' with ' || attempt, ', ' ORDER BY attempt) FROM (SELECT attempt, count(*) AS n FROM ($results) r GROUP BY 1) a")"
say "returned by the reapers: $(sum reaped "$tmp/r1.out" "$tmp/r2.out")"
say "all in all $((($(now_ms) - begun) / 1000)) s"
echo
if [ $off = 0 ]; then say "${green}${bold}Each file has exactly one result, and it is right.${plain}"; else
    say "${red}${bold}Something is off.${plain}"
    exit 1
fi
