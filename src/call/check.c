/* check: arguments of callers. */
#include "call/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/name.h"
#include "pq/pq.h"

/* "argument `queue` is not UTF-8: expected a name of ...": for values that are better not
 * repeated, because they are long, secret or not printable. */
static pgw_status check_fault(pgw *h, const char *argument, const char *fault, const char *allowed)
{
    char message[400];

    snprintf(message, sizeof(message), "argument `%s` %s: expected %s", argument, fault, allowed);
    return pgw__pq_reject(h, PGW_EINVAL, message, NULL);
}

pgw_status pgw__check_handle(pgw *h)
{
    return h != NULL ? PGW_OK : PGW_EINVAL;
}

pgw_status pgw__check_given(pgw *h, const char *argument, const void *pointer)
{
    if (h == NULL) return PGW_EINVAL;
    return pointer != NULL ? PGW_OK : pgw__pq_refuse(h, argument, NULL, "a valid pointer");
}

const char *pgw__check_element(char name[PGW__ELEMENT], const char *array, size_t i)
{
    snprintf(name, PGW__ELEMENT, "%s[%zu]", array, i);
    return name;
}

pgw_status pgw__check_all_given(pgw *h, const char *array, const char *const *pointers, size_t n)
{
    char name[PGW__ELEMENT];
    pgw_status st = pgw__check_given(h, array, pointers);

    for (size_t i = 0; st == PGW_OK && i < n; i++)
        if (pointers[i] == NULL)
            st = pgw__pq_about(h, i, pgw__check_given(h, pgw__check_element(name, array, i), NULL));
    return st;
}

pgw_status pgw__check_unarmed(pgw *h, const char *hint)
{
    if (h == NULL) return PGW_EINVAL;
    if (!pgw__pq_armed(h)) return PGW_OK;
    return pgw__pq_reject(h, PGW_EMISUSE,
                          "this call waits, or takes several round trips, and cannot follow "
                          "pgw_async()",
                          hint);
}

pgw_status pgw__check_name(pgw *h, const char *argument, const char *text, size_t max)
{
    const char *fault;
    char allowed[80];

    if (h == NULL) return PGW_EINVAL;
    fault = text != NULL ? pgw__name_fault(text, max) : "is NULL";
    if (fault == NULL) return PGW_OK;
    snprintf(allowed, sizeof(allowed), "UTF-8 of 1 to %zu bytes without control characters", max);
    return check_fault(h, argument, fault, allowed);
}

pgw_status pgw__check_any_name(pgw *h, const char *argument, const char *text)
{
    const char *fault = text == NULL      ? "is NULL"
                        : text[0] == '\0' ? "is empty"
                                          : pgw__text_fault(text, PGW__ANY_NAME_MAX);

    if (h == NULL) return PGW_EINVAL;
    if (fault == NULL) return PGW_OK;
    return check_fault(h, argument, fault, "UTF-8 of 1 to 255 bytes");
}

pgw_status pgw__check_all_names(pgw *h, const char *array, const char *const *names, size_t n,
                                size_t max)
{
    char name[PGW__ELEMENT];
    pgw_status st = PGW_OK;

    for (size_t i = 0; st == PGW_OK && i < n; i++)
        st = pgw__pq_about(h, i,
                           pgw__check_name(h, pgw__check_element(name, array, i), names[i], max));
    return st;
}

pgw_status pgw__check_queue(pgw *h, const char *queue)
{
    return pgw__check_name(h, "queue", queue, PGW__QUEUE_MAX);
}

pgw_status pgw__check_int(pgw *h, const char *argument, int64_t value, int64_t least, int64_t most)
{
    char allowed[64];

    if (h == NULL) return PGW_EINVAL;
    if (value >= least && value <= most) return PGW_OK;
    snprintf(allowed, sizeof(allowed), "%" PRId64 "..%" PRId64, least, most);
    return pgw__pq_refuse_int(h, argument, value, allowed);
}

pgw_status pgw__check_count(pgw *h, const char *argument, size_t value, size_t least, size_t most)
{
    /* (size_t)-1 is shown as a large number */
    return pgw__check_int(h, argument, value < INT64_MAX ? (int64_t)value : INT64_MAX,
                          (int64_t)least, (int64_t)most);
}

pgw_status pgw__check_limit(pgw *h, const char *argument, int64_t limit)
{
    if (h == NULL) return PGW_EINVAL;
    if (limit > 0 || limit == PGW_UNLIMITED) return PGW_OK;
    return pgw__pq_refuse_int(h, argument, limit, "1 or more, or PGW_UNLIMITED");
}

pgw_status pgw__check_wait(pgw *h, const char *argument, int64_t ms, int64_t most)
{
    char allowed[64];

    if (h == NULL) return PGW_EINVAL;
    if (ms == PGW_UNLIMITED || (ms >= 0 && ms <= most)) return PGW_OK;
    snprintf(allowed, sizeof(allowed), "0..%" PRId64 ", or PGW_UNLIMITED", most);
    return pgw__pq_refuse_int(h, argument, ms, allowed);
}

pgw_status pgw__check_lease(pgw *h, const char *argument, int64_t lease_ms)
{
    if (h == NULL) return PGW_EINVAL;
    if (lease_ms == PGW_DEFAULT || (lease_ms >= PGW__LEASE_MIN_MS && lease_ms <= PGW__LEASE_MAX_MS))
        return PGW_OK;
    return pgw__pq_refuse_int(h, argument, lease_ms, "100..86400000, or PGW_DEFAULT");
}

pgw_status pgw__check_attempts(pgw *h, const char *argument, int attempts)
{
    if (h == NULL) return PGW_EINVAL;
    if (attempts == PGW_DEFAULT || attempts == PGW_UNLIMITED || (attempts >= 1 && attempts <= 1000))
        return PGW_OK;
    return pgw__pq_refuse_int(h, argument, attempts, "1..1000, PGW_UNLIMITED or PGW_DEFAULT");
}

static pgw_status check_size(pgw *h, const char *argument, size_t size, size_t max)
{
    char message[200];

    if (size <= max) return PGW_OK;
    snprintf(message, sizeof(message), "argument `%s` has %zu bytes: expected at most %zu",
             argument, size, max);
    return pgw__pq_reject(h, PGW_ELIMIT, message,
                          "store large data elsewhere and enqueue a reference to it, or raise "
                          "`payload.max_bytes` and, "
                          "for jobs, the queue's max_bytes");
}

pgw_status pgw__check_json(pgw *h, const char *argument, const char *json, size_t max)
{
    char diagnostics[128];
    const char *fault;
    size_t at, line, column;
    pgw_status st;

    if (h == NULL) return PGW_EINVAL;
    if (json == NULL) return PGW_OK;
    st = check_size(h, argument, strlen(json), max);
    if (st != PGW_OK) return st;
    fault = pgw__json_fault(json, max, &at);
    if (fault == NULL) return PGW_OK;
    pgw__text_where(json, at, &line, &column);
    snprintf(diagnostics, sizeof(diagnostics), "%s (line %zu, column %zu)", fault, line, column);
    return check_fault(h, argument, diagnostics, "JSON text in UTF-8");
}

/* A later field must lie after everything that the struct had, including padding at its end: a
 * program that does not know the field may have any bytes there. */
pgw_status pgw__check_opts(pgw *h, const char *argument, void *mine, size_t known,
                           const void *given)
{
    size_t size;
    char name[64], allowed[96];

    if (h == NULL) return PGW_EINVAL;
    if (given == NULL) return PGW_OK;
    memcpy(&size, given, sizeof(size));
    if (pgw__size_is_whole(size) && size <= known) {
        memcpy(mine, given, size);
        return PGW_OK;
    }
    snprintf(name, sizeof(name), "%s->struct_size", argument);
    snprintf(allowed, sizeof(allowed), "that of the _INIT macro, %zu: start from it", known);
    return pgw__pq_refuse_int(h, name, (int64_t)size, allowed);
}

pgw_status pgw__check_filled(pgw *h, const char *argument, void *theirs)
{
    pgw_status st = pgw__check_given(h, argument, theirs);
    size_t size;
    char name[64];

    if (st != PGW_OK) return st;
    memcpy(&size, theirs, sizeof(size));
    snprintf(name, sizeof(name), "%s->struct_size", argument);
    if (size == sizeof(size) || !pgw__size_is_whole(size))
        return pgw__pq_refuse_int(h, name, (int64_t)size, "that of the _INIT macro: start from it");
    memset((char *)theirs + sizeof(size), 0, size - sizeof(size));
    return PGW_OK;
}

static const char *check_host_and_pid(char buffer[PGW__HOLDER_MAX + 1])
{
    char host[200] = "";

    if (gethostname(host, sizeof(host) - 1) != 0 || pgw__name_fault(host, sizeof(host)) != NULL)
        memcpy(host, "localhost", sizeof("localhost"));
    snprintf(buffer, PGW__HOLDER_MAX + 1, "%s:%ld", host, (long)getpid());
    return buffer;
}

pgw_status pgw__check_holder(pgw *h, const char *argument, const char **holder, const char *given,
                             char buffer[PGW__HOLDER_MAX + 1])
{
    if (h == NULL) return PGW_EINVAL;
    *holder = given != NULL ? given : pgw__conf_text(pgw__pq_conf(h), "holder");
    if (given == NULL && **holder == '\0') *holder = check_host_and_pid(buffer);
    return pgw__check_name(h, argument, *holder, PGW__HOLDER_MAX);
}

/* ---- a job to be ---- */

/* "job.key" or "jobs[3].key". Ten thousand jobs have a dozen fields each, so a name is made without
 * formatting. */
typedef struct check_path {
    char text[64];
    size_t stem; /* <= 26 */
} check_path;

static const char *check_field(check_path *path, const char *field)
{
    path->text[path->stem] = '.';
    memcpy(path->text + path->stem + 1, field, strlen(field) + 1);
    return path->text;
}

pgw_status pgw__check_one_time(pgw *h, const char *argument, int64_t delay_ms, int64_t run_at_us)
{
    if (h == NULL) return PGW_EINVAL;
    if (run_at_us == 0 || delay_ms == 0) return PGW_OK;
    return check_fault(h, argument, "is set together with run_at_us", "one of the two");
}

static pgw_status check_time(pgw *h, check_path *path, const pgw_job_spec *job)
{
    pgw_status st;

    st = pgw__check_int(h, check_field(path, "run_at_us"), job->run_at_us, 0, INT64_MAX);
    if (st != PGW_OK) return st;
    st = pgw__check_int(h, check_field(path, "delay_ms"), job->delay_ms, 0, PGW__DELAY_MAX_MS);
    if (st != PGW_OK) return st;
    return pgw__check_one_time(h, path->text, job->delay_ms, job->run_at_us);
}

static pgw_status check_expiry(pgw *h, check_path *path, const pgw_job_spec *job)
{
    pgw_status st;

    st = pgw__check_int(h, check_field(path, "expires_us"), job->expires_us, 0, INT64_MAX);
    if (st != PGW_OK || job->ttl_ms == PGW_UNLIMITED) return st;
    st = pgw__check_int(h, check_field(path, "ttl_ms"), job->ttl_ms, 1, PGW__DELAY_MAX_MS);
    if (st != PGW_OK || job->expires_us == PGW_NONE) return st;
    return check_fault(h, path->text, "is set together with expires_us", "one of the two");
}

static pgw_status check_data(pgw *h, check_path *path, const pgw_job_spec *job, size_t max_bytes)
{
    int64_t timeout_ms;
    pgw_status st;

    if (job->body == NULL && job->body_size > 0)
        return pgw__pq_refuse(h, check_field(path, "body"), NULL, "a pointer to body_size bytes");
    st = pgw__check_json(h, check_field(path, "payload"), job->payload, max_bytes);
    if (st != PGW_OK) return st;
    if (job->payload != NULL) max_bytes -= strlen(job->payload);
    st = check_size(h, check_field(path, "body"), job->body_size, max_bytes);
    if (st != PGW_OK || job->meta == NULL) return st;
    st = pgw__check_json(h, check_field(path, "meta"), job->meta, max_bytes - job->body_size);
    if (st != PGW_OK) return st;
    if (job->meta[strspn(job->meta, " \t\n\r")] != '{')
        return check_fault(h, path->text, "is not an object", "a JSON object, or NULL");
    if (!pgw__json_int(job->meta, "timeout_ms", &timeout_ms) ||
        (timeout_ms >= 1 && timeout_ms <= PGW__TIMEOUT_MAX_MS))
        return PGW_OK;
    return check_fault(h, check_field(path, "meta.timeout_ms"), "is not a number of milliseconds",
                       "1..2592000000");
}

static pgw_status check_tags(pgw *h, check_path *path, const pgw_job_spec *job)
{
    pgw_status st;
    size_t i;

    if (job->tags_count > PGW__TAGS_MAX)
        return pgw__pq_refuse_int(h, check_field(path, "tags_count"), (int64_t)job->tags_count,
                                  "0..32");
    if (job->tags_count > 0 && job->tags == NULL)
        return pgw__pq_refuse(h, check_field(path, "tags"), NULL, "an array of tags_count texts");
    for (i = 0; i < job->tags_count; i++) {
        st = pgw__check_name(h, check_field(path, "tags"), job->tags[i], PGW__TAG_MAX);
        if (st != PGW_OK) return st;
    }
    return PGW_OK;
}

#define CHECK_REPLACE_ALL                                                        \
    (PGW_KEY_REPLACE_PAYLOAD | PGW_KEY_REPLACE_KIND | PGW_KEY_REPLACE_PRIORITY | \
     PGW_KEY_REPLACE_TIME)

static pgw_status check_key(pgw *h, check_path *path, const pgw_job_spec *job)
{
    const bool delay = job->key_policy == PGW_KEY_POLICY_DELAY;
    const bool period = job->key_scope == PGW_KEY_SCOPE_PERIOD || delay;
    const bool replace = job->key_policy == PGW_KEY_POLICY_REPLACE || delay;
    pgw_status st;

    /* with or without a key: the caller maps these two to their words */
    st = pgw__check_int(h, check_field(path, "key_scope"), (int64_t)job->key_scope, 0,
                        PGW_KEY_SCOPE_PERIOD);
    if (st != PGW_OK) return st;
    st = pgw__check_int(h, check_field(path, "key_policy"), (int64_t)job->key_policy, 0,
                        PGW_KEY_POLICY_DELAY);
    if (st != PGW_OK) return st;
    st = pgw__check_int(h, check_field(path, "key_replace"), job->key_replace, 0,
                        replace ? CHECK_REPLACE_ALL : 0);
    if (st != PGW_OK || job->key == NULL) return st;
    st = pgw__check_name(h, check_field(path, "key"), job->key, PGW__KEY_MAX);
    if (st != PGW_OK) return st;
    st = pgw__check_int(h, check_field(path, "key_period_ms"), job->key_period_ms, period,
                        period ? PGW__PERIOD_MAX_MS : 0);
    if (st != PGW_OK || !delay) return st;
    if (job->key_scope == PGW_KEY_SCOPE_PERIOD)
        return pgw__pq_refuse(h, check_field(path, "key_scope"), "PGW_KEY_SCOPE_PERIOD",
                              "PGW_KEY_SCOPE_READY with PGW_KEY_POLICY_DELAY");
    return job->run_at_us != 0 ? PGW_OK
                               : pgw__check_int(h, check_field(path, "delay_ms"), job->delay_ms, 1,
                                                job->key_period_ms);
}

static pgw_status check_job(pgw *h, check_path *path, pgw_job_spec *mine, const void *given,
                            size_t max_bytes)
{
    const pgw_job_spec defaults = PGW_JOB_SPEC_INIT;
    pgw_status st;

    *mine = defaults;
    st = pgw__check_given(h, path->text, given);
    if (st != PGW_OK) return st;
    st = pgw__check_opts(h, path->text, mine, sizeof(*mine), given);
    if (st != PGW_OK) return st;

    if (mine->kind != NULL && *mine->kind != '\0') {
        st = pgw__check_name(h, check_field(path, "kind"), mine->kind, PGW__KIND_MAX);
        if (st != PGW_OK) return st;
    }
    st = check_data(h, path, mine, max_bytes);
    if (st != PGW_OK) return st;
    st = pgw__check_int(h, check_field(path, "priority"), mine->priority, 0, 9);
    if (st != PGW_OK) return st;
    st = check_time(h, path, mine);
    if (st != PGW_OK) return st;
    st = pgw__check_attempts(h, check_field(path, "max_attempts"), mine->max_attempts);
    if (st != PGW_OK) return st;
    st = pgw__check_lease(h, check_field(path, "lease_ms"), mine->lease_ms);
    if (st != PGW_OK) return st;
    st = check_tags(h, path, mine);
    if (st != PGW_OK) return st;
    if (mine->group != NULL) {
        st = pgw__check_name(h, check_field(path, "group"), mine->group, PGW__GROUP_MAX);
        if (st != PGW_OK) return st;
    }
    st = check_expiry(h, path, mine);
    return st == PGW_OK ? check_key(h, path, mine) : st;
}

pgw_status pgw__check_new(pgw *h, pgw_job_spec *mine, const void *given, int64_t index,
                          size_t max_bytes)
{
    check_path path;
    int n;

    if (h == NULL) return PGW_EINVAL;
    n = index < 0 ? snprintf(path.text, sizeof(path.text), "job")
                  : snprintf(path.text, sizeof(path.text), "jobs[%" PRId64 "]", index);
    path.stem = (size_t)n;
    return pgw__pq_about(h, index < 0 ? PGW_NO_INDEX : (size_t)index,
                         check_job(h, &path, mine, given, max_bytes));
}
