/* SPDX-License-Identifier: PostgreSQL */
#include "job.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "text.h"

typedef struct reading {
    job_text *j;
    char *why;
    size_t why_size;
} reading;

static bool job_no(const reading *r, const char *what, const char *why)
{
    snprintf(r->why, r->why_size, "%s%s", what, why);
    return false;
}

static char *job_string(const json *v)
{
    buf t = {0};
    json_add_text(&t, v);
    return t.at;
}

static bool job_text_member(const reading *r, const json *v, char **copy, const char **to,
                            const char *no)
{
    if (v->kind != JSON_STRING) return job_no(r, "", no);
    free(*copy);
    *to = *copy = job_string(v);
    return true;
}

static bool job_number(const reading *r, const json *v, int64_t min, int64_t max, int64_t *to,
                       const char *no)
{
    char digits[24];
    if (v->kind != JSON_NUMBER || v->size >= sizeof digits) return job_no(r, "", no);
    memcpy(digits, v->at, v->size);
    digits[v->size] = '\0';
    return (text_to_int(to, digits) && *to >= min && *to <= max) || job_no(r, "", no);
}

static bool job_int(const reading *r, const json *v, int min, int max, int *to, const char *no)
{
    int64_t n;
    if (!job_number(r, v, min, max, &n, no)) return false;
    *to = (int)n;
    return true;
}

static bool job_tags(const reading *r, const json *v)
{
    job_text *j = r->j;
    json item;
    size_t at = 0;
    if (v->kind != JSON_ARRAY) return job_no(r, "", "tags is not an array of strings");
    if (j->tags) return job_no(r, "", "tags is given twice");
    j->tags = cli_alloc(33 * sizeof *j->tags);
    j->job.tags = (const char *const *)j->tags;
    j->job.tags_count = 0;
    while (json_next(v, &at, NULL, &item)) {
        if (item.kind != JSON_STRING) return job_no(r, "", "tags is not an array of strings");
        if (j->job.tags_count == 32) return job_no(r, "", "more than 32 tags");
        j->tags[j->job.tags_count++] = job_string(&item);
    }
    return true;
}

static bool job_time(const reading *r, const json *v, int64_t *us, const char *name)
{
    char *when = v->kind == JSON_STRING ? job_string(v) : NULL;
    bool good = when && text_to_time_us(us, when);
    free(when);
    return good ||
           job_no(r, name, " is not a time with its zone, such as \"2030-01-31T12:00:00Z\"");
}

static bool job_meta(const reading *r, const json *v)
{
    job_text *j = r->j;
    if (v->kind != JSON_OBJECT) return job_no(r, "", "meta is not an object");
    free(j->meta);
    j->job.meta = j->meta = cli_copy(v->at, v->size);
    return true;
}

static bool job_member(const reading *r, const json *name, const json *v)
{
    job_text *j = r->j;
    pgw_job_spec *job = &j->job;
    if (json_is(name, "payload", 7)) {
        free(j->payload);
        job->payload = j->payload = cli_copy(v->at, v->size);
        return true;
    }
    if (v->kind == JSON_NULL) return true;
    if (json_is(name, "kind", 4)) {
        return job_text_member(r, v, &j->kind, &job->kind, "kind is not a string");
    }
    if (json_is(name, "key", 3)) {
        return job_text_member(r, v, &j->key, &job->key, "key is not a string");
    }
    if (json_is(name, "tags", 4)) return job_tags(r, v);
    if (json_is(name, "run_at", 6)) return job_time(r, v, &job->run_at_us, "run_at");
    if (json_is(name, "group", 5)) {
        return job_text_member(r, v, &j->group, &job->group, "group is not a string");
    }
    if (json_is(name, "expires_at", 10)) return job_time(r, v, &job->expires_us, "expires_at");
    if (json_is(name, "meta", 4)) return job_meta(r, v);
    if (json_is(name, "priority", 8)) {
        return job_int(r, v, 0, 9, &job->priority, "priority is not a number in 0..9");
    }
    if (json_is(name, "max_attempts", 12)) {
        return job_int(r, v, PGW_UNLIMITED, 1000, &job->max_attempts,
                       "max_attempts is not a number in 1..1000 or -1");
    }
    if (json_is(name, "delay_ms", 8)) {
        return job_number(r, v, 0, INT64_MAX, &job->delay_ms, "delay_ms is not a whole number");
    }
    if (json_is(name, "ttl_ms", 6)) {
        return job_number(r, v, 1, INT64_MAX, &job->ttl_ms,
                          "ttl_ms is not a whole number, 1 and up");
    }
    if (json_is(name, "lease_ms", 8)) {
        return job_number(r, v, 100, 86400000, &job->lease_ms,
                          "lease_ms is not a number in 100..86400000");
    }
    char *unknown = job_string(name);
    char *visible = out_visible(unknown);
    if (strlen(visible) > 40) visible[40] = '\0';
    job_no(r, "unknown member: ", visible);
    free(visible);
    free(unknown);
    return false;
}

/* Of two members that exclude each other: the option counts only if the line has neither. */
static bool job_one_of(const reading *r, int64_t *a, int64_t *b, int64_t model_a, int64_t model_b,
                       int64_t no_b, const char *no)
{
    bool has_a = *a != -1, has_b = *b != -1;
    if (has_a && has_b) return job_no(r, "", no);
    if (!has_a) *a = has_b ? 0 : model_a;
    if (!has_b) *b = has_a ? no_b : model_b;
    return true;
}

/* Members may come in any order. Each replaces the option of its name. One of delay_ms and run_at
 * replaces both options; so does one of ttl_ms and expires_at. */
static bool job_full(const reading *r, const json *v)
{
    json name, item;
    size_t at = 0;
    pgw_job_spec *job = &r->j->job;
    const pgw_job_spec model = *job;
    if (v->kind != JSON_OBJECT) return job_no(r, "", "not an object");
    job->run_at_us = job->delay_ms = job->expires_us = job->ttl_ms = -1;
    while (json_next(v, &at, &name, &item)) {
        if (!job_member(r, &name, &item)) return false;
    }
    return job_one_of(r, &job->run_at_us, &job->delay_ms, model.run_at_us, model.delay_ms, 0,
                      "run_at or delay_ms, not both") &&
           job_one_of(r, &job->expires_us, &job->ttl_ms, model.expires_us, model.ttl_ms,
                      PGW_UNLIMITED, "expires_at or ttl_ms, not both");
}

static bool job_line(const reading *r, const char *member, const char *bytes, size_t size)
{
    char no[TEXT_WHERE];
    buf t = {0};
    size_t good = text_utf8_span(bytes, size);
    if (good < size) {
        return job_no(r, "not UTF-8 at ", text_where(no, bytes, size, good));
    }
    if (memchr(bytes, '\0', size)) return job_no(r, "", "a NUL byte");
    buf_puts(&t, "{");
    buf_add_json(&t, member, strlen(member));
    buf_puts(&t, ":");
    buf_add_json(&t, bytes, size);
    buf_puts(&t, "}");
    r->j->job.payload = r->j->payload = t.at;
    return true;
}

bool job_from(job_text *j, const job_form *form, const char *bytes, size_t size, char *why,
              size_t why_size)
{
    const reading r = {j, why, why_size};
    char no[JSON_WHY];
    json v;
    bool good = true;
    *j = (job_text){.job = form->model};
    if (bytes && form->shape == JOB_LINE) {
        good = job_line(&r, form->member ? form->member : "line", bytes, size);
    } else if (bytes && !json_read(&v, bytes, size, no)) {
        good = job_no(&r, "", no);
    } else if (bytes && form->shape == JOB_JSON) {
        j->job.payload = j->payload = cli_copy(v.at, v.size);
    } else if (bytes) {
        good = job_full(&r, &v);
    }
    if (!good) job_free(j);
    return good;
}

void job_free(job_text *j)
{
    for (size_t i = 0; j->tags && i < 33; i++) free(j->tags[i]);
    free(j->tags);
    free(j->payload);
    free(j->kind);
    free(j->key);
    free(j->group);
    free(j->meta);
    *j = (job_text){.job = PGW_JOB_SPEC_INIT};
}
