# The example counter: 64 processes, an exact sum; and again while their sessions are ended.
. "$(dirname "$0")/tap"
counter=$build/examples/counter
pgwork -q migrate
sql "CREATE TABLE counter (name text PRIMARY KEY, n bigint NOT NULL, version bigint NOT NULL DEFAULT 0); INSERT INTO counter VALUES ('visits', 0)" >/dev/null

code '64 processes' 0 "$counter" 64 5
yes 'say that the sum is exact' grep -q 'from 0 to 320, exact' "$tmp/out"
is 'it is' "$(sql "SELECT n || ' ' || version FROM counter")" '320 320'

"$counter" 16 20 >"$tmp/shot" 2>&1 &
counting=$! jobs_of_ours="$jobs_of_ours $counting"
n=0 hit=0
while [ $hit -lt 20 ] && [ $n -lt 200 ]; do # fewer than the 30 tries of counter.c, if all hit one session
    n=$((n + 1))
    hit=$((hit + $(shoot)))
    kill -0 $counting 2>/dev/null || break
done
yes 'sessions are ended' [ $hit -gt 0 ]
wait $counting
is 'with sessions that end under them, too' "$?" 0
yes 'exact' grep -q 'from 320 to 640, exact' "$tmp/shot"
sed 's/^/# /' "$tmp/shot" # in the log, if this test fails
is 'to the last one' "$(sql 'SELECT n FROM counter')" 640
exit 0
