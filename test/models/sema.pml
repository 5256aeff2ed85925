/* Permits of a semaphore: migrations/0010_semaphores.sql. Never more than `permits` are out.
 *
 * A grant is one permit. Users acquire, extend and release in transactions that commit or roll back; a grant can end
 * by its time at any moment, or with its session. sema_resize() changes how many there are, under the gate.
 * A waiter stands at the head of the queue (the turn), and is woken up or looks again.
 */
#ifndef U
#define U 3 /* users; the first one waits for the turn */
#endif
#ifndef PERMITS
#define PERMITS 2
#endif
#ifndef ROUNDS
#define ROUNDS 2 /* grants that a user asks for */
#endif
#define SLOTS PERMITS

byte permits = PERMITS;             /* semaphore.permits */
byte number[SLOTS + 1];             /* permit.number; 0: nonce IS NULL */
bit over[SLOTS + 1];                /* until <= clock_timestamp() */
byte row_lock[SLOTS + 1];           /* the user whose transaction has the row */
bit there[SLOTS + 1];               /* the row exists */
byte semaphore_grant;               /* the sequence */
byte gate;                          /* how many share it; 255: shut */
byte count_lock, turn, past;
bit alive[20];                      /* the session's lock of a grant */
bit told, asleep;                   /* the notification; the head of the queue sleeps without a time limit of its own */
byte my[U + 1], my_slot[U + 1];     /* the grant that a user believes in */

#define TAKEN(s) (there[s] && number[s] != 0)
#ifdef SESSION
#define DEAD(s) (!alive[number[s]])
#else
#define DEAD(s) false
#endif
#define FREE(s) (there[s] && (number[s] == 0 || over[s] || DEAD(s)))
#define LIVE_GRANT(s) (TAKEN(s) && !over[s] && !DEAD(s))
#define EXCESS (there[SLOTS] && SLOTS > permits) /* rows beyond the number */

#ifdef MUT_NO_GATE
#define PASS_GATE skip
#define LEAVE_GATE skip
#else
#define PASS_GATE gate < 200 -> gate++
#define LEAVE_GATE gate--
#endif

inline grants_out()
{
    n = 0; k = 1;
    do :: k <= SLOTS -> if :: LIVE_GRANT(k) -> n++ :: else fi; k++ :: else -> break od; k = 0
}

/* _permits_available(): the first free row that nobody has locked: s; 0: none. */
inline at_hand()
{
    s = 1;
    do
    :: s <= most ->
        if
#ifdef MUT_NO_ROW_LOCK /* another user's transaction may be just taking it */
        :: FREE(s) -> break
#else
        :: FREE(s) && row_lock[s] == 0 -> row_lock[s] = u; break
#endif
        :: else -> s++
        fi
    :: else -> s = 0; break
    od
}

/* _permits_take(), under the gate */
inline permits_take()
{
    atomic { most = permits; in_excess = EXCESS;
#ifdef MUT_EXCESS_UNCOUNTED
        in_excess = 0;
#endif
    };
    if
    :: in_excess -> /* _permits_counted(): one counts at a time, and keeps it to himself if he gets some */
        atomic { if :: count_lock == 0 -> count_lock = u :: else -> s = 0; goto none fi };
        atomic {
            out = 0; k = 1;
            do
            :: k <= SLOTS ->
                if
#ifdef MUT_LOCKED_IS_FREE /* an extension that is under way does not count */
                :: TAKEN(k) && !(FREE(k)) -> out++
#else
                :: TAKEN(k) && !(FREE(k) && row_lock[k] == 0) -> out++
#endif
                :: else
                fi; k++
            :: else -> break
            od; k = 0 };
        atomic { if :: out + 1 <= most -> at_hand() :: else -> s = 0 fi; out = 0;
            if :: s == 0 && count_lock == u -> count_lock = 0 :: else fi }
    :: else -> atomic { at_hand() }
    fi;
none: skip
}

inline end_transaction()
{
    row_lock[s] = (row_lock[s] == u -> 0 : row_lock[s]); s = 0; most = 0; in_excess = 0;
    if :: count_lock == u -> count_lock = 0 :: else fi; LEAVE_GATE
}

inline commit_grant()
{
    semaphore_grant++;
#ifdef SESSION
    alive[semaphore_grant] = 1;
#endif
    number[s] = semaphore_grant; over[s] = 0; my[u] = semaphore_grant; my_slot[u] = s;
    grants_out(); assert(n <= permits); n = 0;
    end_transaction()
}

/* The permits of a token, if they are still its own: row_lock, s */
#ifdef MUT_RELEASE_WITHOUT_TOKEN
#define MINE(u) true
#else
#define MINE(u) (number[my_slot[u]] == my[u])
#endif

proctype user(byte u)
{
    byte s, k, n, most, out, rounds; bit in_excess, unseen, hint, shared;
#ifdef LIVE
    bit extended; /* a grant that is extended for ever keeps the head of the queue waiting */
#endif
end:
    do
    :: atomic { my[u] == 0 && rounds < ROUNDS && u != 1 -> rounds++ }; /* sema_acquire() */
       if :: atomic { turn != 0 -> goto end } :: atomic { turn == 0 -> skip } fi;
       past++;
#ifndef MUT_TURN_ONCE
       if :: atomic { turn != 0 -> past--; goto end } :: atomic { turn == 0 -> skip } fi; /* looked for twice */
#endif
       atomic { PASS_GATE };
       permits_take();
       if
       :: atomic { s != 0 -> commit_grant() }
       :: atomic { s != 0 -> end_transaction() } /* it rolls back, or its session ends */
       :: atomic { s == 0 -> end_transaction() }
       fi; past--
    :: atomic { my[u] == 0 && rounds < ROUNDS && u == 1 -> rounds++ }; /* sema_wait() */
       atomic { turn == 0 -> turn = u };
again: atomic { PASS_GATE };
       unseen = (past != 0);
       permits_take();
       if
       :: atomic { s != 0 -> turn = 0; unseen = 0; commit_grant() }
       :: atomic { s == 0 -> end_transaction();
#ifdef MUT_PAST_UNSEEN
            unseen = 0;
#endif
            if :: !(LIVE_GRANT(1) || LIVE_GRANT(SLOTS)) -> unseen = 1 :: else fi; /* next_ms: 500 */
            if :: unseen :: else -> asleep = 1 fi };
          if
          :: atomic { asleep && told -> told = 0; asleep = 0 } /* the notification */
          :: atomic { unseen -> unseen = 0 } /* after 500 ms */
          :: atomic { asleep && (over[1] || over[SLOTS]) -> asleep = 0 } /* next_ms: when a grant ends */
#ifdef SESSION
          :: atomic { asleep && (TAKEN(1) && DEAD(1) || TAKEN(SLOTS) && DEAD(SLOTS)) -> asleep = 0 }
#endif
          fi; goto again
       fi
#ifdef LIVE
    :: atomic { my[u] != 0 && !extended -> extended = 1 }; /* sema_extend() */
#else
    :: my[u] != 0 -> /* sema_extend() */
#endif
       atomic { PASS_GATE };
#ifdef MUT_EXTEND_UNLOCKED
       atomic { if :: MINE(u) && !over[my_slot[u]] && !DEAD(my_slot[u]) -> s = my_slot[u] :: else -> s = 0 fi };
       atomic { if :: s != 0 -> number[s] = my[u]; over[s] = 0 :: else -> my[u] = 0; my_slot[u] = 0 fi; grants_out(); n = 0; end_transaction() }
#else
       atomic { s = my_slot[u];
           if
           :: row_lock[s] == 0 && MINE(u) && !over[s] && !DEAD(s) -> row_lock[s] = u
           :: row_lock[s] == 0 && !(MINE(u) && !over[s] && !DEAD(s)) -> s = 0
           fi };
       if
       :: atomic { s != 0 -> over[s] = 0; end_transaction() } /* meanwhile its time may be over */
       :: atomic { s == 0 -> my[u] = 0; my_slot[u] = 0; end_transaction() }
       fi
#endif
    :: my[u] != 0 -> /* sema_release() */
#ifdef LIVE
       extended = 0;
#endif
       atomic { PASS_GATE };
       atomic { s = my_slot[u];
           if
           :: row_lock[s] == 0 && MINE(u) -> row_lock[s] = u
           :: row_lock[s] == 0 && !MINE(u) -> s = 0
           fi };
       if
       :: s != 0 -> /* _sema_wake(): looked for twice */
          hint = 0;
          if
          :: atomic { turn != 0 -> hint = 1 }
          :: atomic { turn == 0 -> skip };
#ifndef MUT_NO_PAST
             past++; shared = 1;
#ifndef MUT_READ_ONCE
             if :: atomic { turn != 0 -> hint = 1 } :: atomic { turn == 0 -> skip } fi
#else
             skip
#endif
#else
             skip
#endif
          fi;
          atomic { assert(number[s] == my[u]); /* nobody returns another's permits */
              number[s] = 0; over[s] = 0; if :: s > permits -> there[s] = 0 :: else fi;
              my[u] = 0; my_slot[u] = 0; if :: hint -> told = 1 :: else fi; hint = 0; end_transaction() };
          atomic { if :: shared -> past--; shared = 0 :: else fi }
       :: atomic { s == 0 -> my[u] = 0; my_slot[u] = 0; end_transaction() }
       fi
#ifdef SESSION
    :: atomic { my[u] != 0 -> alive[my[u]] = 0; my[u] = 0; my_slot[u] = 0 } /* killed */
#endif
    od
}

proctype time()
{
end:
    do
    :: d_step { TAKEN(1) && !over[1] -> over[1] = 1 }
    :: d_step { TAKEN(SLOTS) && !over[SLOTS] -> over[SLOTS] = 1 }
    od
}

#ifdef RESIZE
proctype operator() /* sema_resize(): down, and up again */
{
#ifdef MUT_NO_GATE
    permits = SLOTS - 1;
#else
    atomic { gate == 0 -> gate = 255 };
    atomic { permits = SLOTS - 1; if :: there[SLOTS] && FREE(SLOTS) -> number[SLOTS] = 0; there[SLOTS] = 0 :: else fi; gate = 0; if :: turn != 0 -> told = 1 :: else fi };
    atomic { gate == 0 -> gate = 255 };
    atomic { permits = SLOTS; if :: !there[SLOTS] -> there[SLOTS] = 1; number[SLOTS] = 0; over[SLOTS] = 0 :: else fi; gate = 0; if :: turn != 0 -> told = 1 :: else fi }
#endif
}
#endif

init
{
    byte i;
    atomic {
        i = 1; do :: i <= SLOTS -> there[i] = 1; i++ :: else -> break od; i = 0;
        do :: i < U -> i++; run user(i) :: else -> break od;
#ifdef RESIZE
        run operator();
#endif
#ifndef NO_TIME
        run time()
#endif
    }
}

/* The head of the queue does not sleep while a permit is free, nobody is about to wake it up, and no time will. */
#define LOST_WAKE_UP (asleep && !told && gate == 0 && past == 0 && TAKEN(1) + TAKEN(SLOTS) < permits)
#ifndef LIVE
active proctype monitor()
{
end:
    atomic { LOST_WAKE_UP && !over[1] && !over[SLOTS] && !(TAKEN(1) && DEAD(1)) && !(TAKEN(SLOTS) && DEAD(SLOTS)) -> assert(false) }
}
#endif

#ifdef LIVE /* with -DNO_TIME only the notification ends the wait */
ltl the_head_of_the_queue_gets_a_permit { [] (turn != 0 -> <> (turn == 0)) }
#endif
