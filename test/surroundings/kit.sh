# shellcheck shell=sh
# kit.sh: servers that are lost under load, for the scripts here. Sourced, POSIX sh.
# The load is the processes of chaos runs (test/chaos). Each writes its history into $run, outside the server.
# chaos-survive then checks what the histories prove.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/test/support/pg.sh"
bin=$top/build/chaos
[ -x "$bin/chaos-survive" ] || { echo "run: make chaos-programs cli" >&2; exit 2; }
PATH=$top/build:$PATH
home=$(pg_mkdir)
chmod 755 "$home"
run=$home/run crew='' producers='' number=0 elder=0 servers='' mounted='' sink=''
mkdir -p "$run/hist"
: >"$run/faults"

clean() {
    trap '' INT TERM HUP
    trap - EXIT
    # shellcheck disable=SC2086  # numbers of processes
    [ -z "$crew$sink" ] || kill -KILL $crew $sink 2>/dev/null || :
    for s in $servers; do pg_stop "$s" immediate || :; done
    if [ -n "${KEEP:-}" ]; then
        rm -rf "$KEEP"
        cp -r "$run" "$KEEP"
        for s in $servers; do cp "$s/log" "$KEEP/$(basename "$s").log"; done
    fi
    for m in $mounted; do umount "$m" || umount -l "$m" || :; done
    rm -rf "$home"
}
trap clean EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

say() { echo "  $*"; }
die() { echo "failed: $*"; for s in $servers; do tail -n 5 "$s/log"; done; tail -n 5 "$run/err" 2>/dev/null || :; exit 2; }
now() { "$bin/chaos-survive" now; }

# within SECONDS CMD...: a condition that comes true, or the run has failed
within() {
    tries=$(($1 * 10))
    shift
    until "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || die "it never came true: $*"
        sleep 0.1
    done
}

# -- servers: directories under $home ----------------------------------------------------------------

# server NAME: a directory for one; its path is in $made
server() {
    made=$home/$1
    servers="$servers $made"
    mkdir "$made"
    if [ "$(id -u)" = 0 ]; then chown "$(pg_user)" "$made"; fi
}
on() { # on SERVER SQL: in the database $database, or postgres
    PGOPTIONS='' psql -XAtq -v ON_ERROR_STOP=1 -h "$1" -p 5432 -U postgres -d "${database:-postgres}" -c "$2"
}
set_conf() { # set_conf SERVER LINE...: the last line of a name counts
    s=$1
    shift
    printf '%s\n' "$@" >>"$s/data/postgresql.conf"
}
answers() { on "$1" 'SELECT 1'; }
schema() { # schema SERVER: what the load needs
    PGWORK_DSN="host=$1 port=5432 user=postgres dbname=postgres" pgwork -q migrate
    on "$1" "SELECT pgwork.queue_create('q' || i, max_attempts => CASE i WHEN 1 THEN 3 ELSE 50 END, backoff_ms => 200)
               FROM generate_series(0, 5) i" >/dev/null
}
# lose SERVER: as by a power failure: its processes have no time for anything. Until the last of them is gone, which takes
# a moment where it waits for the disk, no server can start on its data.
lose() {
    master=$(head -n 1 "$1/data/postmaster.pid")
    kill -STOP "$master" # it starts nobody any more
    family="$master $(ps -o pid= --ppid "$master")"
    # shellcheck disable=SC2086  # numbers of processes
    kill -KILL $family 2>/dev/null || :
    for p in $family; do within 60 gone "$p"; done
}
gone() { ! kill -0 "$1" 2>/dev/null; }

# -- the load ----------------------------------------------------------------------------------------

role() { # role NAME DSN
    number=$((number + 1))
    "$bin/chaos-role" "$1" $number $((number * 7919)) "$run" "$2" >>"$run/err" 2>&1 &
    crew="$crew $!"
    case $1 in producer | late) producers="$producers $!" ;; esac
}
load() { # load DSN
    export CHAOS_LATE_MS=2000
    elder=$number producers=''
    number=$((number + 1))
    "$bin/chaos-sink" $number "$run" >>"$run/err" 2>&1 &
    sink=$!
    within 60 test -S "$run/sink"
    for r in reaper producer producer late worker worker worker runtime lock lock; do role $r "$1"; done
}
unload() { # the processes are killed, too
    # shellcheck disable=SC2086
    kill -KILL $crew $sink
    # shellcheck disable=SC2086
    wait $crew $sink 2>/dev/null || :
    crew='' sink=''
}
all_there() { for p in $crew; do kill -0 "$p" 2>/dev/null || return 1; done; }

# served SINCE: each process that writes a history has had an answer since then
served() {
    for h in "$run"/hist/*; do
        n=${h##*/}
        case ${n#*-} in sink | reaper) continue ;; esac
        [ "${n%%-*}" -gt "$(printf %05d "$elder")" ] || continue
        tail -n 200 "$h" | awk -v since="$1" '$1 > since && ($5 == "got" || $4 == "o" && $5 != "eff" && $6 != 2 && $6 != 3) { ok = 1 } END { exit !ok }' || return 1
    done
}

# fault BEGIN DEAD SAFE END: notes it (survive.c)
fault() { echo "$*" >>"$run/faults"; }

empty() { [ "$(on "$1" 'SELECT count(*) FROM (SELECT FROM pgwork.live_job UNION ALL SELECT FROM pgwork.delayed_job) j')" = 0 ]; }
# drain SERVER: nothing is added any more, and all jobs come to their end
drain() {
    all_there || die 'a process has ended by itself'
    # shellcheck disable=SC2086
    kill -TERM $producers
    # shellcheck disable=SC2086
    for p in $producers; do wait "$p" || die "a producer ended with $?"; done
    # shellcheck disable=SC2086
    kill -USR1 $crew 2>/dev/null || :
    within 180 empty "$1"
    on "$1" 'SELECT kind FROM pgwork.job' >"$run/left"
    # shellcheck disable=SC2086
    kill -TERM $crew 2>/dev/null || :
    for p in $crew; do
        case " $producers " in *" $p "*) continue ;; esac
        wait "$p" || die "a process ended with $?"
    done
    crew=''
    kill "$sink"
    sink=''
}
# verdict MODE: and the exit status
verdict() { "$bin/chaos-survive" "$run" "$1"; }
