/* A job: claim, extend, complete, fail, release, reap. migrations/0005_claim.sql, 0006_finish.sql, 0007_upkeep.sql.
 *
 * Each verb is a transaction: it locks the row, sees what it is now, and commits or rolls back. A session can
 * crash at any step, and the answer to a commit can be lost: then the worker repeats the call, or gives up.
 * A lease can expire at any moment, so a pause of any length is an interleaving. -DFAILOVER: an asynchronous
 * standby is promoted, which knows an older row and an older sequence.
 *
 * A token is a position, drawn anew for every placement of the job, and random bits. `claim_no` is a ghost: the number
 * of the claim that a token belongs to.
 */
#ifndef W
#define W 2 /* workers */
#endif
#ifndef NR
#define NR 1 /* reapers */
#endif
#ifndef MAX_ATTEMPTS
#define MAX_ATTEMPTS 2
#endif
#ifndef FAULTS
#define FAULTS 2 /* crashes, rollbacks and lost answers, together */
#endif
#ifndef RELEASES
#define RELEASES 1
#endif
#define READY 0
#define LEASED 1
#define DELAYED 2
#define DEAD 3
#define DONE 4

#ifdef FAILOVER
#define BITS epoch /* those of one primary are not those of another */
#else
#define BITS 0
#endif
#ifdef MUT_NO_RANDOM_BITS /* the token is a number alone */
#define SAME(pos_, bits_) (pos == (pos_))
#else
#define SAME(pos_, bits_) (pos == (pos_) && bits == (bits_))
#endif

/* the row: live_job, delayed_job, dead_job or done_job */
byte place, pos = 1, bits, attempt, owner; /* owner: claim_no of the token; ghost */
bit expired;
byte row_lock;         /* the session that has it: 1.. */
byte position = 1;     /* the sequence */
byte claim_no, faults, releases, completed, sink, epoch;
byte my_claim[W + 1], my_pos[W + 1], my_bits[W + 1]; /* what a worker believes; 0: it has no job */

#define FAULT (faults < FAULTS)
#define OVER (place == DONE || place == DEAD)
#define HOLDS(w) (my_claim[w] != 0 && place == LEASED && SAME(my_pos[w], my_bits[w]))
#define FORGET(w) my_claim[w] = 0; my_pos[w] = 0; my_bits[w] = 0

#ifdef MUT_EXTEND_WITHOUT_TOKEN
#define MAY_EXTEND(w) (place == LEASED)
#else
#define MAY_EXTEND(w) HOLDS(w)
#endif
#ifdef MUT_COMPLETE_WITHOUT_TOKEN
#define MAY_COMPLETE(w) (place == LEASED)
#else
#define MAY_COMPLETE(w) HOLDS(w)
#endif

/* A job that comes back lies at a new position. */
inline requeue(to)
{
    place = to;
#ifndef MUT_SAME_POSITION
    position++; pos = position;
#endif
    bits = 0; expired = 0; owner = 0
}

#ifdef MUT_NO_ROW_LOCK /* SKIP LOCKED and the second check of the row are left out */
#define FREE true
#define OPEN(w) true
#else
#define FREE (row_lock == 0)
#define OPEN(w) (row_lock == (w)) /* its transaction, unless the primary is gone */
#endif
#define CLOSE(w) row_lock = (row_lock == (w) -> 0 : row_lock)

proctype worker(byte w)
{
    byte again, extensions;
end:
    do
    :: atomic { my_claim[w] == 0 && place == READY && FREE -> row_lock = w };      /* FOR UPDATE SKIP LOCKED */
       if
       :: atomic { OPEN(w) ->
#ifndef MUT_NO_ROW_LOCK
           assert(place == READY);
#endif
           assert(owner == 0); /* never a job under a lease */
           place = LEASED; attempt++; claim_no++; owner = claim_no; bits = BITS; expired = 0; CLOSE(w);
           if
           :: my_claim[w] = claim_no; my_pos[w] = pos; my_bits[w] = bits; extensions = 0
           :: FAULT -> faults++ /* committed, and nobody knows */
           fi }
       :: atomic { FAULT -> faults++; CLOSE(w) }
       :: !OPEN(w)
       fi
    :: atomic { my_claim[w] != 0 -> /* the work: a resource that knows the newest number it has seen */
#ifndef FAILOVER
         if :: my_pos[w] < sink -> FORGET(w) :: else -> sink = my_pos[w] fi
#else
         skip
#endif
       };
       again = 0;
       if
       :: my_claim[w] == 0
       :: my_claim[w] != 0 && extensions < 1 -> /* extend() never waits: locked */
          atomic { extensions++;
          if
          :: FREE && MAY_EXTEND(w) -> row_lock = w
          :: !FREE && MAY_EXTEND(w) -> goto end
          :: !MAY_EXTEND(w) -> FORGET(w); goto end
          fi };
          if
          :: atomic { OPEN(w) -> assert(owner == my_claim[w]); expired = 0; CLOSE(w) }
          :: atomic { FAULT -> faults++; CLOSE(w) }
          :: !OPEN(w)
          fi
       :: my_claim[w] != 0 -> /* complete(): _take() waits for the lock, then looks */
repeat:   atomic { row_lock == 0 -> row_lock = w };
          if
          :: atomic { OPEN(w) && MAY_COMPLETE(w) ->
             assert(owner == my_claim[w]); /* only the newest claim is accepted */
             place = DONE; completed++; CLOSE(w); owner = 0;
#ifndef FAILOVER
             assert(completed == 1);
#endif
             if
             :: FAULT && !again -> faults++; again = 1; goto repeat /* the answer is lost */
             :: FORGET(w)
             fi }
          :: !OPEN(w)
          :: atomic { OPEN(w) && !MAY_COMPLETE(w) -> /* refused: stale or gone. Nothing was done, now or by this call. */
             CLOSE(w); assert(again || owner != my_claim[w] || epoch > 0);
#ifdef MUT_REPEATED_IS_NEW /* a repeat that is refused puts the job again */
             if :: again -> requeue(READY) :: else fi;
#endif
             FORGET(w) }
          :: atomic { FAULT -> faults++; CLOSE(w) }
          fi
       :: my_claim[w] != 0 -> /* fail(), release(): _requeue() */
          atomic { row_lock == 0 -> row_lock = w };
          if
          :: !OPEN(w)
          :: atomic { OPEN(w) && HOLDS(w) -> assert(owner == my_claim[w]);
             if
             :: attempt >= MAX_ATTEMPTS -> requeue(DEAD)
             :: attempt < MAX_ATTEMPTS -> requeue(DELAYED)
             :: releases < RELEASES -> releases++; attempt--; requeue(READY)
             fi; CLOSE(w); FORGET(w) }
          :: atomic { OPEN(w) && !HOLDS(w) -> CLOSE(w); FORGET(w) }
          fi
       :: atomic { my_claim[w] != 0 && FAULT -> faults++; FORGET(w) } /* killed */
       fi
    od
}

/* _expired() looks, locks and looks again; then _requeue() in the same transaction. promote() is alike. */
proctype reaper(byte r)
{
    byte seen;
end:
    do
    :: atomic { place == LEASED && expired && row_lock == 0 ->
#ifdef MUT_REAP_UNLOCKED /* what was seen before is taken, extended or not */
         seen = owner };
       atomic { row_lock == 0 -> row_lock = r };
#else
         row_lock = r };
#endif
       if
       :: !OPEN(r) -> seen = 0
       :: atomic { OPEN(r) && place == LEASED -> seen = 0;
          assert(expired); /* a live lease is not taken away */
          if
          :: attempt < MAX_ATTEMPTS -> requeue(READY)
#ifdef MUT_REAP_FOREVER
          :: else -> requeue(READY)
#else
          :: else -> requeue(DEAD)
#endif
          fi; CLOSE(r) }
       :: atomic { OPEN(r) && place != LEASED -> CLOSE(r); seen = 0 }
       :: atomic { FAULT -> faults++; CLOSE(r); seen = 0 }
       fi
#ifndef MUT_NO_PROMOTE
    :: atomic { place == DELAYED && row_lock == 0 -> requeue(READY) }
#endif
    od
}

proctype clock()
{
end:
    do
    :: atomic { place == LEASED && !expired -> expired = 1 }
    od
}

#ifdef FAILOVER
byte s_place, s_pos, s_bits, s_attempt, s_owner, s_position;
proctype standby()
{
    d_step { s_place = place; s_pos = pos; s_bits = bits; s_attempt = attempt; s_owner = owner; s_position = position };
    d_step { place = s_place; pos = s_pos; bits = s_bits; attempt = s_attempt; owner = s_owner; position = s_position;
             row_lock = 0; epoch = 1; expired = (place == LEASED) }
}
#endif

/* One claim of a job at a time: no two workers hold the current token. */
#define TWO (W > 1 && HOLDS(1) && HOLDS(W) && my_claim[1] != my_claim[W])
active proctype monitor()
{
end:
    atomic { TWO || attempt > MAX_ATTEMPTS -> assert(false) }
}

init
{
    byte i;
    atomic {
        do :: i < W -> i++; run worker(i) :: else -> break od;
        do :: i < W + NR -> i++; run reaper(i) :: else -> break od;
#ifdef FAILOVER
        run standby();
#endif
        run clock()
    }
}

#ifdef LIVE
ltl every_job_ends { <> OVER }
#endif
