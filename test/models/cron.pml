/* Ticks of a schedule: migrations/0013_schedules.sql. Each slot is decided once, however many schedulers there are.
 *
 * cron_tick(): the schedule's row is locked, the slot's row inserted, the job enqueued, and the plan moved on, in one
 * transaction, which can roll back. -DHELD: cron_claim() gives the tick to a node, under a token, until a time.
 * The clock can be set back, once. misfire: all (-DALL), or once.
 */
#ifndef NT
#define NT 3 /* slots */
#endif
#ifndef NS
#define NS 2 /* schedulers */
#endif
#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef MAX_ATTEMPTS
#define MAX_ATTEMPTS 2
#endif
byte at, base;          /* the server's clock; schedule.base: decided up to there */
byte row_lock, set_back, faults;
bit paused;
bit tick[NT + 1];       /* the table: this slot was decided */
byte fired[NT + 1];     /* jobs, or finished ticks, of a slot */
byte slot, token, fence, attempt, given_up; /* schedule: the tick that a node holds */
bit until_over;
byte my[NS + 1], my_slot[NS + 1];

#ifdef MUT_NO_ROW_LOCK
#define FREE true
#else
#define FREE (row_lock == 0)
#endif
#define DUE (base < at && !paused)

/* _cron_due(): s */
inline due()
{
#ifdef ALL
    s = from + 1
#else
    s = (at > from -> at : from + 1)
#endif
}

proctype scheduler(byte n)
{
    byte s, from;
end:
    do
#ifndef HELD
    :: atomic { DUE && FREE -> row_lock = n; from = base };
       due();
       if
       :: atomic { s <= at ->
            if
#ifndef MUT_NO_KEY /* tick_pkey */
            :: tick[s] -> skip /* decided before the clock was set back */
#endif
            :: !tick[s] -> tick[s] = 1; fired[s]++
#ifdef MUT_NO_KEY
            :: tick[s] -> fired[s]++
#endif
            fi;
            assert(fired[s] == 1); /* no slot has two jobs */
#ifndef MUT_BASE_STAYS
            base = s;
#endif
            row_lock = (row_lock == n -> 0 : row_lock); s = 0; from = 0 }
       :: atomic { s > at -> row_lock = (row_lock == n -> 0 : row_lock); s = 0; from = 0 }
       :: atomic { faults < FAULTS -> faults++; row_lock = (row_lock == n -> 0 : row_lock); s = 0; from = 0 }
       fi
#else
    :: atomic { my[n] == 0 && FREE && (slot != 0 -> until_over : DUE) -> row_lock = n; from = base };
       if
       :: atomic { slot != 0 && attempt >= MAX_ATTEMPTS -> given_up = slot; fired[slot]++; slot = 0; token = 0; attempt = 0;
            until_over = 0; row_lock = 0; from = 0 }
       :: atomic { slot != 0 && attempt < MAX_ATTEMPTS ->
            attempt++; fence++; token = fence; until_over = 0; row_lock = 0; from = 0;
            if :: my[n] = fence; my_slot[n] = slot :: faults < FAULTS -> faults++ fi }
       :: atomic { slot == 0 -> due();
            if
            :: s <= at && !tick[s] -> tick[s] = 1; slot = s; base = s; attempt = 1; fence++; token = fence; until_over = 0;
                 if :: my[n] = fence; my_slot[n] = s :: faults < FAULTS -> faults++ fi
            :: s <= at && tick[s] -> base = s
            :: else
            fi; row_lock = 0; s = 0; from = 0 }
       :: atomic { faults < FAULTS -> faults++; row_lock = 0; from = 0 }
       fi
    :: atomic { my[n] != 0 && row_lock == 0 -> /* cron_finish() */
         if
#ifdef MUT_FINISH_WITHOUT_TOKEN
         :: slot != 0 ->
#else
         :: token == my[n] ->
#endif
              assert(token == my[n] && slot == my_slot[n]); /* only the newest holder */
              fired[slot]++; assert(fired[slot] == 1); slot = 0; token = 0; attempt = 0; until_over = 0
         :: else
         fi; my[n] = 0; my_slot[n] = 0 }
    :: atomic { my[n] != 0 && row_lock == 0 && faults < FAULTS -> /* cron_release() */
         faults++;
         if :: token == my[n] -> until_over = 1; attempt--; token = 0 :: else fi; my[n] = 0; my_slot[n] = 0 }
    :: atomic { my[n] != 0 && faults < FAULTS -> faults++; my[n] = 0; my_slot[n] = 0 } /* killed */
#endif
    od
}

proctype clock()
{
end:
    do
    :: d_step { at < NT -> at++ }
#ifdef SET_BACK
    :: d_step { at > 1 && set_back == 0 -> set_back = 1; at-- }
    :: d_step { set_back == 1 && base > at && slot == 0 && row_lock == 0 -> set_back = 2; base = at } /* cron_break() */
#endif
#ifdef HELD
    :: d_step { slot != 0 && !until_over -> until_over = 1 }
#endif
    od
}

proctype operator()
{
    if
    :: atomic { row_lock == 0 -> paused = 1 }; atomic { row_lock == 0 -> paused = 0 }
    :: true
    fi
}

active proctype monitor()
{
end:
    atomic { my[1] != 0 && my[1] == my[NS] && NS > 1 -> assert(false) } /* one holder of a token */
}

init
{
    byte i;
    atomic { do :: i < NS -> i++; run scheduler(i) :: else -> break od; run clock(); run operator() }
}

#ifdef LIVE
#ifdef ALL
ltl every_slot_is_decided_and_ends { <> (fired[1] == 1 && fired[2] == 1 && fired[NT] == 1) }
#else
ltl the_last_slot_is_decided { <> (fired[NT] == 1) }
#endif
#endif
