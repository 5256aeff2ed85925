/* The gate of a group: migrations/0015_groups.sql. No more jobs are admitted than the limit, each in its order, and
 * none waits while there is room.
 *
 * The jobs of the group have the places 1 .. J and commit in any order: one that is urgent, or late, has a small place.
 * Those that may open the gate read the settings, lock the gate, and then take up events and admit in one statement:
 * a claim, which may stay open, and a tick of the reaper, which may lower `low` of admitted jobs. Workers finish jobs,
 * and hand their places on without the lock,
 * an operator cancels one that waits, the limit changes. All can roll back. -DBLOCK: a dead letter stops the group until
 * an operator decides about it.
 *
 * Events are taken up all at once, so of each kind the least place and the sum of the credits are enough.
 */
#ifndef J
#define J 3 /* jobs, at most 4 */
#endif
#ifndef CHANGES
#define CHANGES 1 /* of the limit, at most 2 */
#endif
#ifndef LIMIT
#define LIMIT 2 /* at first; the other one is 3 - LIMIT */
#endif
#ifndef FAULTS
#define FAULTS 1 /* transactions that roll back */
#endif
#define NEW 0
#define GATED 1
#define ADMITTED 2
#define GONE 3
#define LETTER 4 /* admitted_job.dead */
#define NONE 9

byte state[5];              /* of a job: delayed_job with a gate, or admitted_job */
byte low[5], terms_of[5];   /* admitted_job.low, .terms */
byte row[5];                /* the transaction that has locked the job's row */
byte limit = LIMIT, group_terms; /* queue */
byte gate_lock, faults, letters;
byte most[5];               /* ghost: the highest limit since a transaction began */

/* gate_event: of jobs that came, of settings, what openers leave; and by terms, of jobs that have left */
byte came = NONE;
byte left[3] = NONE, credit[3];
byte in_work = NONE; /* the least place of those that an open transaction deletes */

#define STOPPED (state[1] == LETTER || state[2] == LETTER || state[3] == LETTER || state[4] == LETTER)
inline note(which, its_place) { which = (its_place < which -> its_place : which) }

#ifdef MUT_OLD_SETTINGS /* who has read the settings before they changed goes by the old ones */
#define KNOWS true
#else
#define KNOWS (q_terms == group_terms)
#endif
#ifdef MUT_TERMS_IGNORED
#define SAME_TERMS(t) true
#else
#define SAME_TERMS(t) ((t) == q_terms)
#endif

inline count_admitted()
{
    n = 0; k = 1;
    do :: k <= J -> if :: state[k] == ADMITTED || state[k] == LETTER -> n++ :: else fi; k++ :: else -> break od; k = 0
}

/* _open_gates(): the events, and how many may be admitted */
inline take_up()
{
    start = came; my_came = came; came = NONE; freed = 0; counted = (start != NONE); k = 0;
    do
    :: k <= CHANGES ->
        if
        :: credit[k] > 0 ->
            my_left[k] = left[k]; my_credit[k] = credit[k]; left[k] = NONE; credit[k] = 0;
            note(start, my_left[k]); freed = freed + my_credit[k];
            if :: !SAME_TERMS(k) -> counted = 1 :: else fi
        :: else
        fi; k++
    :: else -> break
    od;
#ifndef MUT_LETTER_IGNORED
    shut = STOPPED;
#endif
    in_work = start;
    if
    :: start == NONE || shut -> n = 0
    :: start != NONE && !shut && !counted -> n = freed
    :: start != NONE && !shut && counted ->
#ifdef MUT_COUNTED_FIRST
        n = before;
#else
        count_admitted();
#endif
#ifdef MUT_ONE_MORE
        n = (q_limit + 1 > n -> q_limit + 1 - n : 0)
#else
        n = (q_limit > n -> q_limit - n : 0)
#endif
    fi
}

/* c, l, f: the first n behind `start`, up to one that another transaction has locked */
inline admit()
{
    found = 0; last = 0; free = 1; k = start + 1;
    do
    :: k <= J && found < n ->
        if
        :: state[k] == GATED ->
            found++; last = k;
            if
            :: row[k] == 0 && free -> row[k] = me
#ifdef MUT_CANDIDATE_PASSED
            :: row[k] == 0 && !free -> row[k] = me
#endif
            :: else -> free = 0
            fi
        :: else
        fi; k++
    :: else -> break
    od;
    again = (free -> NONE : start);
    free = 1; k = 1; /* and nobody is passed */
    do
    :: k <= J ->
        if
        :: state[k] == GATED && row[k] != me -> free = 0
        :: state[k] == GATED && row[k] == me -> assert(free && !(STOPPED))
        :: else
        fi; k++
    :: else -> break
    od; k = 0
}

/* high, low: full now, and a job may wait in front of the place where the search goes on */
inline lower()
{
    to = NONE;
#ifndef MUT_LOW_STAYS
    if :: n == 0 && !shut -> to = start :: else fi;
#endif
#ifndef MUT_NOT_LOWERED
    if :: counted && n > 0 && n < q_limit && found == n -> to = last :: else fi;
#endif
    k = 1;
    do
    :: k <= J && to != NONE ->
        if
        :: state[k] == ADMITTED && low[k] > to && tick && row[k] == 0 -> row[k] = me
        :: state[k] == ADMITTED && low[k] > to && !(tick && row[k] == 0) -> note(again, to)
        :: else
        fi; k++
    :: else -> break
    od; k = 0
}

inline commit()
{
    k = 1; n = 0;
    do
    :: k <= J ->
        if
        :: row[k] == me && state[k] == GATED -> state[k] = ADMITTED; low[k] = k; terms_of[k] = q_terms; row[k] = 0; n++
        :: row[k] == me && state[k] == ADMITTED -> low[k] = to; row[k] = 0
        :: else
        fi; k++
    :: else -> break
    od;
    if :: n > 0 -> count_admitted(); assert(n <= most[me]) :: else fi;
    note(came, again)
}

inline undo()
{
    k = 1; do :: k <= J -> if :: row[k] == me -> row[k] = 0 :: else fi; k++ :: else -> break od;
    note(came, my_came); k = 0;
    do :: k <= CHANGES -> note(left[k], my_left[k]); credit[k] = credit[k] + my_credit[k]; k++ :: else -> break od
}

inline end_transaction()
{
    in_work = (gate_lock == me -> NONE : in_work); gate_lock = (gate_lock == me -> 0 : gate_lock);
    most[me] = 0; q_limit = 0; q_terms = 0; start = 0; n = 0; freed = 0; found = 0; last = 0; to = 0; again = 0; before = 0;
    counted = 0; free = 0; shut = 0; my_came = NONE; k = 0;
    do :: k <= CHANGES -> my_left[k] = NONE; my_credit[k] = 0; k++ :: else -> break od; k = 0
}

#define EVENTS (came != NONE || credit[0] || credit[1] || credit[2])

proctype opener(byte me; bit tick)
{
    byte q_limit, q_terms, start, n, freed, found, last, to, again, before, k; bit counted, free, shut;
    byte my_came = NONE, my_left[3] = NONE, my_credit[3];
end:
    do
    :: atomic {
        EVENTS -> q_limit = limit; q_terms = group_terms; most[me] = limit;
#ifdef MUT_COUNTED_FIRST /* the jobs are counted before the gate is locked */
        count_admitted(); before = n; n = 0
#endif
       };
       if
#ifndef MUT_NO_LOCK
       :: atomic { gate_lock != 0 -> end_transaction(); goto end }
       :: atomic { gate_lock == 0 -> gate_lock = me }
#else
       :: skip
#endif
       fi;
       atomic {
            if :: KNOWS -> take_up() :: else -> start = NONE fi;
            if :: start == NONE -> again = NONE; to = NONE :: else -> admit(); lower() fi };
       if
       :: atomic { commit(); end_transaction() }
       :: atomic { faults < FAULTS -> faults++; undo(); end_transaction() }
       fi
    od
}

#define LOCK_ONE(s) \
    if \
    :: state[1] == s && row[1] == 0 -> j = 1 \
    :: state[2] == s && row[2] == 0 -> j = 2 \
    :: state[3] == s && row[3] == 0 -> j = 3 \
    :: state[4] == s && row[4] == 0 -> j = 4 \
    fi; row[j] = me

#ifdef MUT_HAND_OLD_TERMS
#define HAND_TERMS true
#else
#define HAND_TERMS (terms_of[j] == q_terms)
#endif
#ifdef MUT_HAND_PASSES
#define STRICT false
#else
#define STRICT (q_limit == 1)
#endif
#ifdef MUT_HAND_OWN_LOW
#define HANDED_LOW h
#else
#define HANDED_LOW low[j]
#endif

/* _hand_on(): the next job gets the place, without the lock of the gate; h: none */
inline hand_on()
{
    h = 0; start = low[j];
#ifndef MUT_HAND_EVENTS_UNSEEN
    note(start, came); note(start, left[0]); note(start, left[1]); note(start, left[2]); note(start, in_work);
#endif
    if
    :: HAND_TERMS && !(STOPPED) ->
        k = start + 1;
        do
        :: k <= J && state[k] != GATED -> k++
        :: k <= J && state[k] == GATED && row[k] != 0 && STRICT -> break
        :: k <= J && state[k] == GATED && row[k] != 0 && !(STRICT) -> k++
        :: k <= J && state[k] == GATED && row[k] == 0 -> h = k; row[h] = me; break
        :: k > J -> break
        od;
        k = 1; /* nobody is passed, except who is in the hands of another where there are more places than one */
        do :: k < h -> assert(state[k] != GATED || (row[k] != 0 && q_limit > 1)); k++ :: else -> break od
    :: else
    fi; k = 0; start = 0
}

/* complete(): hands the place on, or leaves an event: also after a hundred times, and at REPEATABLE READ */
proctype worker(byte me)
{
    byte j, h, k, n, start, q_limit, q_terms;
end:
    do
    :: atomic { LOCK_ONE(ADMITTED); q_limit = limit; q_terms = group_terms; most[me - 7] = limit };
       if :: atomic { hand_on() } :: h = 0 fi;
       if
       :: atomic {
            h != 0 -> state[h] = ADMITTED; low[h] = HANDED_LOW; terms_of[h] = terms_of[j]; row[h] = 0; row[j] = 0;
            state[j] = GONE; low[j] = 0; terms_of[j] = 0;
            count_admitted(); assert(n <= most[me - 7]); n = 0; h = 0; j = 0; q_limit = 0; q_terms = 0; most[me - 7] = 0 }
       :: atomic {
            h == 0 -> state[j] = GONE; row[j] = 0; q_limit = 0; q_terms = 0; most[me - 7] = 0;
#ifndef MUT_LEAVES_SILENTLY
            note(left[terms_of[j]], low[j]); credit[terms_of[j]]++;
#endif
#ifdef MUT_CREDIT_TWICE
            credit[terms_of[j]]++;
#endif
            low[j] = 0; terms_of[j] = 0; j = 0 }
#ifdef BLOCK
       :: atomic { h == 0 && letters < 1 -> /* _leave_unfinished() */
            letters++; state[j] = LETTER; row[j] = 0; j = 0; q_limit = 0; q_terms = 0; most[me - 7] = 0 }
#endif
       :: atomic { faults < FAULTS ->
            faults++; row[j] = 0; row[h] = 0; h = 0; j = 0; q_limit = 0; q_terms = 0; most[me - 7] = 0 }
       fi
    od
}

/* enqueue() */
proctype producer()
{
    byte j;
end:
    do
    :: atomic {
        if :: state[1] == NEW -> j = 1 :: state[2] == NEW -> j = 2 :: state[3] == NEW && J > 2 -> j = 3 :: state[4] == NEW && J > 3 -> j = 4 fi;
        state[j] = GATED;
#ifndef MUT_COMES_SILENTLY
        note(came, j - 1);
#endif
        j = 0 }
    od
}

/* cancel() of a job that waits */
proctype operator(byte me)
{
    byte j;
end:
    atomic { LOCK_ONE(GATED) };
    if
    :: atomic { state[j] = GONE; row[j] = 0; j = 0 }
    :: atomic { row[j] = 0; j = 0 }
    fi
}

#ifdef BLOCK
/* redrive(); or the letter is purged, or the group unblocked */
proctype decider(byte me)
{
    byte j;
end:
    do
    :: atomic {
        LOCK_ONE(LETTER); row[j] = 0;
        if :: state[j] = ADMITTED :: state[j] = GONE; low[j] = 0; terms_of[j] = 0 fi;
#ifndef MUT_REDRIVE_SILENTLY
        came = 0;
#endif
        j = 0 }
    od
}
#endif

/* group_set() */
proctype settings()
{
    byte n;
end:
    do
    :: atomic {
        n < CHANGES -> n++;
        limit = 3 - limit; group_terms++;
        most[1] = (most[1] && most[1] < limit -> limit : most[1]);
        most[2] = (most[2] && most[2] < limit -> limit : most[2]);
        most[3] = (most[3] && most[3] < limit -> limit : most[3]);
        most[4] = (most[4] && most[4] < limit -> limit : most[4]);
        came = 0 }
    od
}

/* With no transaction open: a job waits, there is room, and nobody will look. */
#define IN(k) (state[k] == ADMITTED -> 1 : 0)
#define FIRST (state[1] == GATED -> 1 : (state[2] == GATED -> 2 : (state[3] == GATED -> 3 : (state[4] == GATED -> 4 : 0))))
#define OPENS(p) (came < (p) || left[0] < (p) || left[1] < (p) || left[2] < (p))
#define AT_REST (gate_lock == 0 && row[1] == 0 && row[2] == 0 && row[3] == 0 && row[4] == 0)
#define STRANDED (FIRST != 0 && !(STOPPED) && (IN(1)) + (IN(2)) + (IN(3)) + (IN(4)) < limit && !(OPENS(FIRST)))

proctype monitor()
{
end: atomic { AT_REST && STRANDED -> assert(false) }
}

init
{
    atomic {
        run opener(1, 0); run opener(2, 1); run worker(10);
#ifdef W2
        run worker(11);
#endif
        run producer();
#ifdef CANCEL
        run operator(20);
#endif
#ifdef BLOCK
        run decider(21);
#endif
        run settings(); run monitor()
    }
}

#ifdef LIVE
#define OVER(k) (k > J || state[k] == GONE)
ltl every_job_ends { <> (OVER(1) && OVER(2) && OVER(3) && OVER(4)) }
#endif
