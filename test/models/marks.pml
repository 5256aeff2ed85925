/* Low-water marks: migrations/0004_marks.sql. No ready job is missed, whatever commits late.
 *
 * Transactions enqueue (pg_current_xact_id, LOCK TABLE, nextval, INSERT) and claim, then commit, roll
 * back, or are prepared first. A reaper ticks. A worker claims what it finds from the marks on. Each
 * SQL statement is one step with a snapshot of its own; a commit is visible before its locks are gone;
 * pg_locks shows relation locks a moment before transaction ids (fast path first).
 *
 * A position is a row: 0 < p <= NP. `mark`, `late` and so on are the newest committed entry of the table mark, by
 * queue; `late` is the set of positions in ranges. tick_* is the newest row of reaper_tick.
 *
 * -DREAPER_ENDS: the reaper goes for good at any time, also within a tick or before the first one. Then claims find every
 * job above the marks. Each job that they do not find is in the ledger, so the next reaper finds it.
 *
 * Left out: lanes, batch rows, the session's hint. They only choose among rows that a claim can see.
 */
#ifndef NP
#define NP 3 /* positions */
#endif
#ifndef NX
#define NX 2 /* transactions */
#endif
#ifndef NQ
#define NQ 1 /* queues */
#endif
#ifndef NR
#define NR 1 /* reapers */
#endif
#ifndef CRASHES
#define CRASHES 0 /* ticks that roll back */
#endif
#ifndef CLAIMS
#define CLAIMS 1 /* of each transaction */
#endif
#ifndef BACKSTEP
#define BACKSTEP 1 /* positions that one tick looks back */
#endif
#define SUB(x) ((x) + NX) /* the id of its savepoint */
#define NID (2 * NX + 1)
#define BIT(i) (1 << (i))
#define NONE 255
#define FROZEN NID /* a transaction that is over, and that nobody has to remember */
#ifdef FINE /* every statement has a snapshot of its own */
#define NEXT_SNAPSHOT }; atomic {
#else
#define NEXT_SNAPSHOT
#endif

#ifdef MUT_SETTLED_UNSEEN /* before all queues were looked at */
#define ALL_SEEN true
#else
#define ALL_SEEN (t_next == 0)
#endif
#ifdef MUT_UP_TO_NOW /* marks move up to what this tick has seen drawn */
#define TOP t_issued
#else
#define TOP tick_issued
#endif
#ifdef MUT_WRITERS_PASSED /* the mark passes rows of all writers, not only of slow ones */
#define PASSED t_writers
#else
#define PASSED t_slow
#endif
#ifdef MUT_JOBS_FIRST /* REPEATABLE READ: the jobs as they were before pg_locks was read */
#define SEEN(p) (n_late[0] & BIT(p))
#else
#define SEEN(p) READY(p)
#endif
#ifdef MUT_BACK_UNNOTICED /* a search that begins again and ends where the last one did */
#define BACK_DONE(q) (n_back_mark[q] == back_mark[q] && n_back_floor[q] == back_floor[q])
#else
#define BACK_DONE(q) (n_back_mark[q] == NONE && back_mark[q] == NONE)
#endif
#ifdef MUT_SAVEPOINT_UNSEEN /* a savepoint passes for its transaction, and its own id is not remembered */
#define IDS_OF(x) BIT(x)
#define WRITER_OF(x) ((x) > NX && (x) <= 2 * NX -> (x) - NX : (x))
#else
#define IDS_OF(x) (BIT(x) | BIT(SUB(x)))
#define WRITER_OF(x) (x)
#endif
#define RUNNING 1
#define COMMITTED 2
#define ABORTED 3

byte issued;               /* last_value of the sequence position */
byte state[NID + 1];              /* state of each transaction id */
byte rel, ids;             /* pg_locks: live_job, and transaction ids */
byte split;                /* being prepared: the two are held by different virtual transactions */
byte xmin[NP + 1], xmax[NP + 1], queue[NP + 1];

#define VISIBLE(p) (xmin[p] != 0 && state[xmin[p]] == COMMITTED)
#define READY(p) (VISIBLE(p) && !(xmax[p] != 0 && state[xmax[p]] == COMMITTED))
#define LOCKED(p) (xmax[p] != 0 && state[xmax[p]] == RUNNING)
#define FOUND(p, m, l) ((p) > (m) || ((l) & BIT(p)))

/* table mark */
byte version[NQ], mark[NQ], floor[NQ], late[NQ], back_mark[NQ], back_floor[NQ]; /* back: NONE = '{}' */
byte froms[NQ * NID], low_mark[NQ * NID], low_floor[NQ * NID];

/* table reaper_tick */
byte tick_version, tick_issued, tick_writers, tick_slow, tick_seen[NID], tick_next;
bit tick_settled, tick_lock;

byte begun;
byte crashes;
bit switched; /* low_water_marks was off once */

/* _marks_at(m, v): low_m, low_f */
inline marks_at(q, v)
{
    low_m = 0; low_f = 0;
    if
    :: version[q] <= v -> low_m = mark[q]; low_f = floor[q]
    :: else ->
        best = 0; k = 0;
        do
        :: k < NID ->
            if
            :: froms[q * NID + k] != NONE && froms[q * NID + k] <= v && froms[q * NID + k] >= best ->
                best = froms[q * NID + k]; low_m = low_mark[q * NID + k]; low_f = low_floor[q * NID + k]
            :: else
            fi; k++
        :: else -> break
        od
    fi
}

/* Every ready job is found, or its transaction is remembered from a tick at which the marks were below it. */
inline check_ledger(q)
{
    p = 1;
    do
    :: p <= NP ->
        if
        :: queue[p] == q && READY(p) && !FOUND(p, mark[q], late[q]) &&
           !(back_mark[q] != NONE && p > back_mark[q]) ->
            x = xmin[p];
            if
            :: tick_slow & BIT(x) -> marks_at(q, tick_seen[x])
            :: else -> low_m = NONE
            fi;
            if
            :: low_m >= p ->
                x = xmax[p];
                assert(x != 0 && (tick_slow & BIT(x)));
                marks_at(q, tick_seen[x]);
                assert(low_m < p)
            :: else
            fi
        :: else
        fi; p++
    :: else -> break
    od; p = 0; x = 0; low_m = 0; low_f = 0; k = 0; best = 0
}

/* When nothing moves any more, all ready rows are in the ranges, and all rows above the floors. */
inline check_settled()
{
    p = 1;
    do
    :: p <= NP ->
        if
        :: p <= t_issued && READY(p) -> assert(FOUND(p, mark[queue[p]], late[queue[p]]))
        :: else
        fi;
        if
        :: p <= t_issued && VISIBLE(p) -> assert(p > floor[queue[p]])
        :: else
        fi; p++
    :: else -> break
    od; p = 0
}

inline forget_tick()
{
    t_issued = 0; t_rel = 0; t_writers = 0; t_slow = 0; since = NONE; t_next = 0; moved = 0; up = 0; looked = 0; q = 0;
    k = 0; do :: k < NID -> t_seen[k] = 0; k++ :: else -> break od; k = 0;
    do
    :: k < NQ ->
        n_set[k] = 0; n_mark[k] = 0; n_floor[k] = 0; n_late[k] = 0; n_back_mark[k] = NONE; n_back_floor[k] = NONE;
        before_m = 0; row = 0; k++
    :: else -> break
    od; k = 0
}

inline delete_marks()
{
    k = 0;
    do
    :: k < NQ ->
        version[k] = 0; mark[k] = 0; floor[k] = 0; late[k] = 0; back_mark[k] = NONE; back_floor[k] = NONE; k++
    :: else -> break
    od; k = 0;
    do :: k < NQ * NID -> froms[k] = NONE; low_mark[k] = 0; low_floor[k] = 0; k++ :: else -> break od; k = 0
}

/* _writers('pgwork.live_job') */
inline writers()
{
    t_rel = rel;
    NEXT_SNAPSHOT
    d_step {
#ifdef MUT_BY_VIRTUAL_TRANSACTION /* GROUP BY virtualtransaction */
        t_rel = t_rel & ~split;
#endif
        t_writers = 0; x = 1;
        do
        :: x <= NX ->
            if
            :: t_rel & BIT(x) -> t_writers = t_writers | (ids & IDS_OF(x))
            :: else
            fi; x++
        :: else -> break
        od; x = 0; t_rel = 0
    }
}

/* Versions are compared, and nothing else: those that nobody names any more are closed up. */
#define CLOSE(v) if :: v != NONE && v > best -> v-- :: else fi
inline renumber()
{
    best = tick_version;
    do
    :: best > 0 ->
        best--; used = 0; k = 0;
        do :: k < NQ -> used = used || version[k] == best; k++ :: else -> break od; k = 0;
        do :: k < NQ * NID -> used = used || froms[k] == best; k++ :: else -> break od; k = 0;
        do :: k < NID -> used = used || (best != 0 && tick_seen[k] == best); k++ :: else -> break od; k = 0;
        if
        :: used || best == 0
        :: else ->
            do :: k < NQ -> CLOSE(version[k]); k++ :: else -> break od; k = 0;
            do :: k < NQ * NID -> CLOSE(froms[k]); k++ :: else -> break od; k = 0;
            do :: k < NID -> CLOSE(tick_seen[k]); k++ :: else -> break od; k = 0;
            tick_version--
        fi
    :: else -> break
    od; used = 0; k = 0
}

/* What belongs to transactions that no tick has to remember any more. */
inline freeze()
{
    p = 1;
    do
    :: p <= NP ->
        x = xmin[p];
        if
        :: x != 0 && state[x] == COMMITTED && !((tick_writers | tick_slow) & BIT(x)) -> xmin[p] = FROZEN
        :: else
        fi;
        x = xmax[p];
        if
        :: x != 0 && x != FROZEN && !((tick_writers | tick_slow) & BIT(x)) ->
            if
            :: state[x] == COMMITTED -> xmax[p] = FROZEN
            :: state[x] == ABORTED -> xmax[p] = 0
            :: else
            fi
        :: else
        fi; p++
    :: else -> break
    od; p = 0;
    q = 0;
    do /* history that no transaction can ask for; the table keeps it until the next entry */
    :: q < NQ ->
        k = 0;
        do
        :: k < NID ->
            used = 0; x = 1;
            do
            :: x < NID -> used = used || ((tick_slow & BIT(x)) && froms[q * NID + k] <= tick_seen[x] && tick_seen[x] < version[q]); x++
            :: else -> break
            od; x = 0;
            if
            :: !used -> froms[q * NID + k] = NONE; low_mark[q * NID + k] = 0; low_floor[q * NID + k] = 0
            :: else
            fi; k++
        :: else -> break
        od; k = 0; q++
    :: else -> break
    od; q = 0; used = 0
}

/* The first row of a lane above `low`, up to `top`: row; 0: none. */
inline first_row(q, low, top)
{
    row = 0; p = low + 1;
    do
    :: p <= NP && p <= top ->
        if :: queue[p] == q && VISIBLE(p) -> row = p; break :: else fi; p++
    :: else -> break
    od; p = 0
}

inline write_history(q)
{
    /* _history(was, t.seen), before `was` changes */
    k = 0;
    do
    :: k < NID -> h_from[k] = NONE; h_mark[k] = 0; h_floor[k] = 0; k++
    :: else -> break
    od;
    x = 1;
    do
    :: x < NID ->
        if
        :: t_slow & BIT(x) ->
            if
            :: version[q] <= t_seen[x] ->
#ifdef MUT_HISTORY_OF_NOW /* the marks as they will be, not as they were */
                h_from[x] = t_seen[x]; h_mark[x] = n_mark[q]; h_floor[x] = n_floor[q]
#else
                h_from[x] = version[q]; h_mark[x] = mark[q]; h_floor[x] = floor[q]
#endif
            :: else ->
                best = NONE; k = 0;
                do
                :: k < NID ->
                    if
                    :: froms[q * NID + k] != NONE && froms[q * NID + k] <= t_seen[x] &&
                       (best == NONE || froms[q * NID + k] > froms[q * NID + best]) -> best = k
                    :: else
                    fi; k++
                :: else -> break
                od;
                if
                :: best != NONE ->
                    h_from[x] = froms[q * NID + best]; h_mark[x] = low_mark[q * NID + best];
                    h_floor[x] = low_floor[q * NID + best]
                :: else
                fi
            fi
        :: else
        fi; x++
    :: else -> break
    od; x = 0; best = 0;
    k = 0;
    do
    :: k < NID ->
        froms[q * NID + k] = h_from[k]; low_mark[q * NID + k] = h_mark[k]; low_floor[q * NID + k] = h_floor[k];
        h_from[k] = 0; h_mark[k] = 0; h_floor[k] = 0; k++
    :: else -> break
    od; k = 0
}

#define MIN(a, b) ((a) < (b) -> (a) : (b))
#define MAX(a, b) ((a) > (b) -> (a) : (b))

proctype reaper()
{
    byte t_issued, t_rel, t_writers, t_slow, t_seen[NID], since = NONE, t_next, before_m, row;
    byte n_mark[NQ], n_floor[NQ], n_late[NQ], n_back_mark[NQ] = NONE, n_back_floor[NQ] = NONE;
    bit n_set[NQ], moved, up, used;
    byte q, p, x, k, best, low_m, low_f, looked;
    byte h_from[NID], h_mark[NID], h_floor[NID];

end:
    do
#ifdef REAPER_ENDS
    :: break /* no reaper any more, or none at all */
#endif
    :: true ->
#ifdef MUT_TWO_TICK /* no advisory lock */
        skip;
#else
        atomic { !tick_lock -> tick_lock = 1 };
#endif
        /* _tick(prev) */
#ifndef MUT_WRITERS_FIRST
        t_issued = issued;
#endif
#ifdef MUT_JOBS_FIRST
        d_step { k = 1; do :: k <= NP -> if :: READY(k) -> n_late[0] = n_late[0] | BIT(k) :: else fi; k++ :: else -> break od; k = 0 };
#endif
        atomic {
            writers();
#ifdef MUT_WRITERS_FIRST
            };
            atomic {
            t_issued = issued;
#endif
            if
            :: d_step { tick_settled && t_issued == tick_issued && t_writers == 0 -> check_settled(); forget_tick(); tick_lock = 0 };
               goto end
            :: else
            fi;
            d_step {
                x = 1;
                do
                :: x < NID ->
                    if
                    :: (t_writers & tick_writers) & BIT(x) ->
                        t_slow = t_slow | BIT(x);
                        if
                        :: tick_slow & BIT(x) -> t_seen[x] = tick_seen[x]
#ifdef MUT_SEEN_LATER /* this tick, not the one before it was slow */
                        :: else -> t_seen[x] = tick_version + 1
#else
                        :: else -> t_seen[x] = tick_version
#endif
                        fi
                    :: else
                    fi;
                    if
                    :: (tick_slow & ~t_slow) & BIT(x) -> since = MIN(since, tick_seen[x])
                    :: else
                    fi; x++
                :: else -> break
                od; x = 0
            };
            if
#ifdef OFF
            :: atomic { !switched -> switched = 1; delete_marks(); tick_version++; tick_issued = t_issued;
                 tick_writers = t_writers; tick_slow = t_slow; tick_settled = 1;
                 k = 0; do :: k < NID -> tick_seen[k] = t_seen[k]; k++ :: else -> break od; k = 0;
                 forget_tick(); tick_lock = 0; goto end }
#endif
            :: true
            fi;
            q = (tick_next != 0 -> tick_next - 1 : 0) };
        do
        :: atomic { looked < NQ ->
#if NQ > 1
                if :: looked > 0 && !up -> up = 1 :: true fi; /* 20 ms are over */
#endif
                if
                :: up ->
                    t_next = (t_next == 0 -> q + 1 : t_next);
                    if
                    :: since == NONE -> goto written
#ifdef MUT_QUEUE_SKIPPED /* whatever it holds of a transaction that is over */
                    :: since != NONE -> goto next
#else
                    :: since != NONE && version[q] <= since -> goto next
#endif
                    :: else
                    fi
                :: else
                fi;
                d_step { /* _tick_queue() */
                    n_back_mark[q] = back_mark[q]; n_back_floor[q] = back_floor[q]; n_floor[q] = floor[q];
#ifndef MUT_NO_SEARCH_BACK
                    if
                    :: since != NONE && version[q] > since ->
                        marks_at(q, since);
                        n_back_mark[q] = MIN(low_m, back_mark[q]); n_back_floor[q] = MIN(low_f, back_floor[q])
                    :: else
                    fi;
#endif
                    low_m = 0; low_f = 0; before_m = 0; best = 0; k = 0;
                    if
                    :: n_back_mark[q] != NONE ->
                        before_m = n_back_mark[q];
                        low_f = n_back_floor[q];
                        n_back_mark[q] = MIN(n_back_mark[q] + BACKSTEP, mark[q]);
                        n_back_floor[q] = MIN(n_back_floor[q] + BACKSTEP, floor[q]);
                        first_row(q, low_f, n_back_floor[q]);
#ifndef MUT_FLOOR_STAYS
                        if :: row != 0 && row - 1 < n_floor[q] -> n_floor[q] = row - 1 :: else fi;
#endif
                        row = 0; low_f = 0
                    :: else -> before_m = NONE
                    fi
                };
                NEXT_SNAPSHOT
                d_step { first_row(q, n_floor[q], NP) };
                if
                :: row == 0 && late[q] == 0 && BACK_DONE(q) -> goto next /* an idle queue */
                :: else
                fi;
                NEXT_SNAPSHOT
                d_step {
                    p = mark[q] + 1;
                    do
                    :: p <= TOP ->
                        if
                        :: queue[p] == q && SEEN(p) && !(xmax[p] != 0 && (PASSED & BIT(WRITER_OF(xmax[p])))) -> break
                        :: else
                        fi; p++
                    :: else -> break
                    od;
                    n_mark[q] = MAX(mark[q], MIN(p - 1, TOP)); p = 0; n_late[q] = 0;
                    n_floor[q] = MAX(n_floor[q], (row != 0 -> MIN(row - 1, TOP) : TOP)); row = 0
                };
                NEXT_SNAPSHOT
                d_step { /* _set_ranges() */
                    p = 1;
                    do
                    :: p <= NP ->
                        if
                        :: queue[p] == q && READY(p) && p <= n_mark[q] &&
                           (
#ifndef MUT_RANGES_FORGOTTEN
                               (late[q] & BIT(p)) ||
#endif
                               before_m != NONE && p > before_m && p <= n_back_mark[q]) ->
                            n_late[q] = n_late[q] | BIT(p)
                        :: else
                        fi; p++
                    :: else -> break
                    od; p = 0; before_m = 0;
#ifdef MUT_BACK_ONCE /* the search back ends with its first piece */
                    n_back_mark[q] = NONE; n_back_floor[q] = NONE;
#endif
                    if
                    :: n_back_mark[q] == mark[q] && n_back_floor[q] == floor[q] ->
                        n_back_mark[q] = NONE; n_back_floor[q] = NONE
                    :: else
                    fi;
                    if
                    :: !BACK_DONE(q) || n_mark[q] != mark[q] || n_floor[q] != floor[q] || n_late[q] != late[q] ||
                       n_back_mark[q] != back_mark[q] || n_back_floor[q] != back_floor[q] -> n_set[q] = 1; moved = 1
                    :: else
                    fi
                };
next:
                q = (q + 1) % NQ; looked++;
                if :: looked == NQ -> goto written :: else fi }
        od;
written:
            if
            :: d_step { crashes < CRASHES -> crashes++; forget_tick(); tick_lock = 0 }
#ifdef REAPER_ENDS
            :: d_step { true -> forget_tick(); tick_lock = 0 }; break
#endif
            :: d_step { true ->
                q = 0;
                do
                :: q < NQ ->
                    if
                    :: n_set[q] ->
                        write_history(q);
                        version[q] = tick_version + 1; mark[q] = n_mark[q]; floor[q] = n_floor[q]; late[q] = n_late[q];
                        back_mark[q] = n_back_mark[q]; back_floor[q] = n_back_floor[q]
                    :: else
                    fi; q++
                :: else -> break
                od; q = 0;
#ifdef MUT_MARKS_FIRST /* the marks are committed before their tick */
                };
                if :: break :: true fi;
                d_step {
#endif
                tick_settled = !moved && t_issued == tick_issued && t_writers == 0 && ALL_SEEN;
                tick_version++;
                tick_issued = t_issued; tick_writers = t_writers; tick_slow = t_slow; tick_next = t_next;
                k = 0; do :: k < NID -> tick_seen[k] = t_seen[k]; k++ :: else -> break od; k = 0;
                forget_tick();
                do :: q < NQ -> check_ledger(q); q++ :: else -> break od; q = 0;
                freeze();
                renumber();
                tick_lock = 0 }
            fi
    od
}

/* The first row in the ranges that nobody has locked: p; 0: none. */
inline pick(q, m, l)
{
    p = 1;
    do
    :: p <= NP && !(queue[p] == q && READY(p) && !LOCKED(p) && FOUND(p, m, l)) -> p++
    :: p <= NP && queue[p] == q && READY(p) && !LOCKED(p) && FOUND(p, m, l) -> break
    :: else -> p = 0; break
    od
}

proctype xact(byte x)
{
    byte p, q, m, l, its_id = x, claims;
    bit saved;

    atomic { begun == x - 1 -> begun = x }; /* they are all alike */
    do
    :: issued < NP -> /* enqueue() */
#ifdef MUT_DRAWN_FIRST
        atomic { issued < NP -> issued++; p = issued };
        atomic { ids = ids | BIT(x); state[x] = RUNNING; state[its_id] = RUNNING };
        rel = rel | BIT(x);
#else
        atomic { ids = ids | BIT(x); state[x] = RUNNING;
            NEXT_SNAPSHOT
#ifndef MUT_LOCK_LATE
            rel = rel | BIT(x);
#endif
            NEXT_SNAPSHOT
            if :: issued < NP -> issued++; p = issued :: else -> goto done fi };
#ifdef MUT_LOCK_LATE
        rel = rel | BIT(x);
#endif
#endif
        atomic {
            if
            :: queue[p] = 0
#if NQ > 1
            :: x == 1 -> queue[p] = 1
#endif
            fi; xmin[p] = x; p = 0 }
    :: claims < CLAIMS -> /* claim_batch(): reads the ranges, then picks */
        rel = rel | BIT(x);
        atomic { claims++;
            if
            :: q = 0
#if NQ > 1
            :: q = 1
#endif
            fi; m = mark[q]; l = late[q] };
#ifdef SAVEPOINT
        if
        :: atomic { x == 1 && !saved -> saved = 1; its_id = SUB(x); ids = ids | BIT(x) | BIT(its_id); state[x] = RUNNING; state[its_id] = RUNNING }
        :: true
        fi;
#endif
        atomic { pick(q, m, l);
            if :: p != 0 -> ids = ids | BIT(x); state[x] = RUNNING; xmax[p] = its_id :: else fi; p = 0; m = 0; l = 0; q = 0 };
#ifdef SAVEPOINT
        if
        :: atomic { its_id != x -> /* RELEASE: its id is no longer in pg_locks */ ids = ids & ~BIT(its_id); its_id = x }
        :: atomic { its_id != x -> /* ROLLBACK TO */ ids = ids & ~BIT(its_id); state[its_id] = ABORTED; its_id = x }
        :: true
        fi
#endif
    :: break
    od;
done:
#ifdef PREPARE
    if
    :: atomic { state[x] == RUNNING -> split = split | BIT(x) }; split = split & ~BIT(x)
    :: true
    fi;
#endif
    if
    :: atomic { state[x] = COMMITTED; if :: state[SUB(x)] == RUNNING -> state[SUB(x)] = COMMITTED :: else fi }
    :: atomic { state[x] = ABORTED;
         do :: p < NP -> p++; if :: xmin[p] == x -> xmin[p] = 0; queue[p] = 0 :: else fi :: else -> break od; p = 0;
         if :: state[SUB(x)] == RUNNING -> state[SUB(x)] = ABORTED :: else fi }
    fi;
    atomic { ids = ids & ~(BIT(x) | BIT(SUB(x))); rel = rel & ~BIT(x); its_id = 0; claims = 0; saved = 0 }
}

proctype worker()
{
    byte p, q, m, l;
#ifdef REAPER_ENDS
    byte x, k, best, low_m, low_f;
#endif

end:
    do
    :: atomic { pick(q, mark[q], late[q]);
#if NQ > 1
         if :: p == 0 -> q = 1; pick(q, mark[q], late[q]) :: else fi;
#endif
#ifdef REAPER_ENDS /* what no claim can find waits for the next reaper, which can */
         if
         :: p == 0 -> d_step { q = 0; do :: q < NQ -> check_ledger(q); q++ :: else -> break od; q = 0 }
         :: else
         fi;
#endif
         if :: p == 0 -> q = 0; goto end :: else -> p = 0; m = mark[q]; l = late[q] fi;
         NEXT_SNAPSHOT
         pick(q, m, l); if :: p != 0 -> xmin[p] = 0; xmax[p] = 0; queue[p] = 0 :: else fi; p = 0; q = 0; m = 0; l = 0 }
    od
}

init
{
    byte k;
    atomic {
        delete_marks(); state[FROZEN] = COMMITTED;
        do :: k < NX -> k++; run xact(k) :: else -> break od; k = 0;
        do :: k < NR -> k++; run reaper() :: else -> break od; k = 0;
        run worker()
    }
}

#define R(p) ((p) <= NP && READY(p))
#if NP == 2
#define ANY (READY(1) || READY(2))
#endif
#if NP == 3
#define ANY (READY(1) || READY(2) || READY(3))
#endif
#if NP == 4
#define ANY (READY(1) || READY(2) || READY(3) || READY(4))
#endif
#ifdef LIVE
#ifdef REAPER_ENDS
#define REACHED(p) (READY(p) && FOUND(p, mark[queue[p]], late[queue[p]]))
ltl every_job_above_the_marks_is_claimed { <> [] (!(REACHED(1) || REACHED(2))) }
#else
ltl every_ready_job_is_claimed { <> [] (!ANY) }
#endif
#endif
