# The demo: it ends well with few files and beside busy loops, and reports what is wrong if it cannot.
. "$(dirname "$0")/tap"
demo="$top/examples/demo/demo.sh"

mkdir "$tmp/files" "$tmp/three"
for i in $(seq 50); do echo "$i" >"$tmp/files/file $i"; done
for i in 1 2 3; do echo "$i" >"$tmp/three/$i"; done
for i in 1 2 3 4 5 6 7 8; do
    while :; do :; done &
    jobs_of_ours="$jobs_of_ours $!"
done
code 'the demo ends well with 50 files beside eight busy loops' 0 sh "$demo" "$tmp/files"
is 'two workers are killed while they hold jobs, a third is frozen' "$(grep -c '^  kill -\(9\|STOP\) w[123], which holds [1-9]' "$tmp/out")" 3
is 'other workers do their jobs' "$(grep -c '^  ok   jobs of w[123] that others have done: [1-9]' "$tmp/out")" 3
yes 'the frozen worker notices that it is late' grep -q '^  ok   w3 noticed' "$tmp/out"
yes 'the fourth is killed under full load, or the demo says why not' grep -q '^  \(kill -9 w4 under full load\|w4 was not killed under full load: \)' "$tmp/out"
is 'nothing is off' "$(grep -c OFF "$tmp/out")" 0
code 'so it does with fewer files than can be held' 0 sh "$demo" "$tmp/three"
yes 'with few files the demo says that no worker is hurt' grep -q 'no worker is hurt' "$tmp/out"
for p in $jobs_of_ours; do kill "$p"; done

mkdir "$tmp/bin"
cat >"$tmp/bin/pgwork" <<'END'
#!/bin/sh
case " $* " in *' work '*) echo 'pgwork: out of order' >&2; exit 8 ;; esac
exec "$PGWORK_REAL" "$@"
END
chmod 755 "$tmp/bin/pgwork"
PGWORK_REAL=$(command -v pgwork) PATH=$tmp/bin:$PATH code 'the demo fails without workers' 1 sh "$demo" "$tmp/files"
yes 'the demo prints the last message of a worker' grep -q 'w1: pgwork: out of order' "$tmp/out"
yes 'the demo names the missing worker' grep -q 'w1 is not there any more' "$tmp/out"
exit 0
