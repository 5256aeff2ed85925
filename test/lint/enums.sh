#!/bin/sh
# enums.sh CC FLAGS...: a constant of one kind does not compile where another kind is asked for.
set -eu
try() { # try STATEMENT: compiles it in a function
    printf '%s\n' '#include <pgwork.h>' 'pgw_verdict f(pgw_status st, pgw_conf *conf);' \
        'pgw_verdict f(pgw_status st, pgw_conf *conf)' '{' '(void)st, (void)conf;' "$1" 'return PGW_VERDICT_DONE;' '}' |
        $cc -Wall -Wenum-conversion -Werror -fsyntax-only -x c - 2>/dev/null
}
cc=$*
try 'if (st == PGW_ERETRY) return PGW_VERDICT_RETRY; ((pgw_queue_opts *)conf)->notify = PGW_SWITCH_ON;' || { echo "what is right does not compile"; exit 1; }
while read -r wrong; do
    if try "$wrong"; then echo "compiles: $wrong"; exit 1; fi
done <<'END'
return PGW_ERETRY;
return PGW_SIGNAL_CANCELED;
if (st == PGW_VERDICT_RETRY) return PGW_VERDICT_DEAD;
if (st == PGW_SIGNAL_TIMEOUT) return PGW_VERDICT_DEAD;
if (st == PGW_LOG_ERROR) return PGW_VERDICT_DEAD;
st = PGW_VERDICT_RELEASE;
pgw_conf_set_log(conf, PGW_EINVAL, NULL, NULL);
pgw_conf_set_int(conf, PGW_CONF_NOTIFY, 1);
((pgw_queue_opts *)conf)->notify = PGW_LOCK_SHARED;
((pgw_lock_opts *)conf)->mode = PGW_ROW_LOCK_SHARE;
((pgw_job_spec *)conf)->key_scope = PGW_KEY_POLICY_ERROR;
((pgw_ref *)conf)->outcome = PGW_VERDICT_DEAD;
pgw_conf_set_int(conf, PGW_CONF_WORKER_LEASES_MS, 1);
END
