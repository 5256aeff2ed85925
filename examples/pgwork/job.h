/* SPDX-License-Identifier: PostgreSQL
 *
 * job: makes a job from a line of text.
 */
#ifndef JOB_H
#define JOB_H

#include "cli.h"

typedef enum job_shape {
    JOB_LINE, /* the payload is {"line": text} */
    JOB_JSON, /* the text is the payload */
    JOB_FULL  /* the text is an object with payload, kind, priority, ... */
} job_shape;

typedef struct job_form {
    job_shape shape;
    const char *member; /* name of the member of JOB_LINE; NULL: "line" */
    bool keys;          /* jobs may have unique keys */
    pgw_job_spec model; /* values of members that the text lacks; strings are borrowed */
} job_form;

/* A job, and the memory that it uses. */
typedef struct job_text {
    pgw_job_spec job;
    char *payload, *kind, *key, *group, *meta, **tags;
} job_text;

/** @p bytes NULL: a job without payload. False: @p why has the error, and nothing has to be freed.
 */
bool job_from(job_text *j, const job_form *form, const char *bytes, size_t size, char *why,
              size_t why_size);
void job_free(job_text *j);

#endif
