/* SPDX-License-Identifier: PostgreSQL
 *
 * @file pgwork.hpp
 * The C++17 interface: header only, over pgwork.h. Objects free what they own. Errors are
 * exceptions. Durations are std::chrono. Texts are std::string_view and are copied.
 *
 *     pgwork::handle h;
 *     h.enqueue("mail", pgwork::job_spec().kind("welcome").payload(R"({"to": "ann"})"));
 *     for (const pgwork::job &job : h.claim({"mail"}, pgwork::claim_options().max(10)))
 *         h.complete(job);
 *
 * Call all other functions of pgwork.h with handle::get(), worker::get() and so on. The rules of
 * pgwork.h apply, also those for threads. A moved-from object can only be assigned to or destroyed.
 */
#ifndef PGWORK_HPP
#define PGWORK_HPP

#include <pgwork.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pgwork {

using milliseconds = std::chrono::milliseconds;

/** A failed call: what() is the message with the hint. */
class error : public std::runtime_error {
public:
    error(pgw_status status, const std::string &message, std::string hint = {},
          std::string sqlstate = {})
        : std::runtime_error(hint.empty() ? message : message + " (" + hint + ")"),
          status_(status), hint_(std::move(hint)), sqlstate_(std::move(sqlstate))
    {
    }
    pgw_status status() const noexcept { return status_; }
    const std::string &hint() const noexcept { return hint_; }
    const std::string &sqlstate() const noexcept { return sqlstate_; }
    bool retriable() const noexcept { return pgw_is_retriable(status_); }
    bool lost() const noexcept { return pgw_is_lost(status_); }
    bool unknown() const noexcept { return pgw_is_unknown(status_); }

private:
    pgw_status status_;
    std::string hint_, sqlstate_;
};

namespace detail {
template <auto Free> struct freer {
    template <class T> void operator()(T *p) const noexcept { Free(p); }
};
inline void check(pgw_status st)
{
    if (st < 0) throw error(st, pgw_status_text(st));
}
inline const char *or_null(const std::optional<std::string> &s)
{
    return s ? s->c_str() : nullptr;
}
} // namespace detail

/** A configuration, for example conf().set(PGW_CONF_WORKER_CONCURRENCY, 8). */
class conf {
public:
    conf()
    {
        pgw_conf *c = nullptr;
        detail::check(pgw_conf_new(&c));
        conf_.reset(c);
    }
    conf &set(std::string_view name, std::string_view value)
    {
        return checked(
            pgw_conf_set(get(), std::string(name).c_str(), std::string(value).c_str()));
    }
    conf &set(pgw_conf_int property, std::int64_t value)
    {
        return checked(pgw_conf_set_int(get(), property, value));
    }
    conf &set(pgw_conf_int property, milliseconds value) { return set(property, value.count()); }
    conf &set(pgw_conf_bool property, bool value)
    {
        return checked(pgw_conf_set_bool(get(), property, value));
    }
    conf &set(pgw_conf_text property, std::string_view value)
    {
        return checked(pgw_conf_set_text(get(), property, std::string(value).c_str()));
    }
    pgw_conf *get() const noexcept { return conf_.get(); }

private:
    conf &checked(pgw_status st)
    {
        if (st < 0) throw error(st, pgw_conf_error(get()));
        return *this;
    }
    std::unique_ptr<pgw_conf, detail::freer<pgw_conf_free>> conf_;
};

/** Asks loops and waits to end. Any thread and any signal handler may call notify(). */
class stop {
public:
    stop()
    {
        pgw_stop *s = nullptr;
        detail::check(pgw_stop_new(&s));
        stop_.reset(s);
    }
    void notify() noexcept { pgw_stop_notify(get()); }
    int count() const noexcept { return pgw_stop_count(get()); }
    pgw_stop *get() const noexcept { return stop_.get(); }

private:
    std::unique_ptr<pgw_stop, detail::freer<pgw_stop_free>> stop_;
};

/** Describes a job to enqueue. */
class job_spec {
public:
    job_spec &payload(std::string_view json) { payload_ = json; return *this; }
    job_spec &kind(std::string_view kind) { kind_ = kind; return *this; }
    job_spec &meta(std::string_view json) { meta_ = json; return *this; }
    job_spec &group(std::string_view group) { group_ = group; return *this; }
    job_spec &body(std::string_view bytes) { body_ = bytes; return *this; }
    job_spec &tag(std::string_view tag) { tags_.emplace_back(tag); return *this; }
    job_spec &priority(int n) { spec_.priority = n; return *this; }
    job_spec &max_attempts(int n) { spec_.max_attempts = n; return *this; }
    job_spec &delay(milliseconds d) { spec_.delay_ms = d.count(); return *this; }
    job_spec &lease(milliseconds d) { spec_.lease_ms = d.count(); return *this; }
    job_spec &unique(std::string_view key, pgw_key_policy policy = PGW_KEY_POLICY_SKIP,
                     pgw_key_scope scope = PGW_KEY_SCOPE_UNFINISHED, milliseconds period = {})
    {
        key_ = key;
        spec_.key_policy = policy, spec_.key_scope = scope;
        spec_.key_period_ms = period.count();
        return *this;
    }

private:
    friend class handle;
    /* What the C interface reads, borrowed from this object. */
    pgw_job_spec spec(std::vector<const char *> &tags) const
    {
        pgw_job_spec s = spec_;
        for (const std::string &t : tags_) tags.push_back(t.c_str());
        s.payload = detail::or_null(payload_), s.kind = detail::or_null(kind_);
        s.meta = detail::or_null(meta_), s.group = detail::or_null(group_);
        s.key = detail::or_null(key_);
        if (body_) s.body = body_->data(), s.body_size = body_->size();
        s.tags = tags.data(), s.tags_count = tags.size();
        return s;
    }
    pgw_job_spec spec_ = PGW_JOB_SPEC_INIT;
    std::optional<std::string> payload_, kind_, meta_, group_, key_, body_;
    std::vector<std::string> tags_;
};

/** The result of an enqueue: outcome is PGW_OK or a PGW_OUTCOME_... constant. */
struct enqueued {
    std::int64_t id;
    pgw_status outcome;
};

/** A view of a job, valid as long as its batch or task. A missing text is empty. */
class job {
public:
    explicit job(const pgw_job *j) noexcept : job_(j) {}
    std::int64_t id() const noexcept { return pgw_job_id(job_); }
    pgw_ref ref() const noexcept { return pgw_job_ref(job_); }
    std::string_view queue() const noexcept { return view(pgw_job_queue(job_)); }
    std::string_view kind() const noexcept { return view(pgw_job_kind(job_)); }
    std::string_view payload() const noexcept { return view(pgw_job_payload(job_)); }
    std::string_view meta() const noexcept { return view(pgw_job_meta(job_)); }
    std::string_view body() const noexcept
    {
        std::size_t size = 0;
        const void *bytes = pgw_job_body(job_, &size);
        return bytes ? std::string_view(static_cast<const char *>(bytes), size)
                     : std::string_view();
    }
    int attempt() const noexcept { return pgw_job_attempt(job_); }
    int max_attempts() const noexcept { return pgw_job_max_attempts(job_); }
    int priority() const noexcept { return pgw_job_priority(job_); }
    const pgw_job *get() const noexcept { return job_; }

private:
    static std::string_view view(const char *s) noexcept { return s ? s : std::string_view(); }
    const pgw_job *job_;
};

/** The jobs of one claim; empty if none was ready. */
class batch {
public:
    batch() = default;
    explicit batch(pgw_batch *b)
    {
        batch_.reset(b);
        for (std::size_t i = 0; i < pgw_batch_count(b); i++) jobs_.emplace_back(pgw_batch_job(b, i));
    }
    std::size_t size() const noexcept { return jobs_.size(); }
    bool empty() const noexcept { return jobs_.empty(); }
    const job &operator[](std::size_t i) const noexcept { return jobs_[i]; }
    auto begin() const noexcept { return jobs_.begin(); }
    auto end() const noexcept { return jobs_.end(); }

private:
    std::unique_ptr<pgw_batch, detail::freer<pgw_batch_free>> batch_;
    std::vector<job> jobs_;
};

class claim_options {
public:
    claim_options &max(int n) { opts_.max = n; return *this; }
    claim_options &lease(milliseconds d) { opts_.lease_ms = d.count(); return *this; }
    claim_options &wait(milliseconds d) { opts_.wait_ms = d.count(); return *this; }
    claim_options &wait_until_stopped() { opts_.wait_ms = PGW_UNLIMITED; return *this; }
    claim_options &apart(bool yes = true) { opts_.apart = yes; return *this; }

private:
    friend class handle;
    pgw_claim_opts opts_ = PGW_CLAIM_OPTS_INIT;
};

/** A lock. The destructor releases it. */
class lock {
public:
    explicit lock(pgw_lock *l) noexcept : lock_(l) {}
    std::int64_t fence() const noexcept { return pgw_lock_fence(get()); }
    bool held() const noexcept { return pgw_lock_is_held(get()); }
    /** Releases the lock now. False: it was lost before. */
    bool release()
    {
        const pgw_status st = pgw_lock_release(lock_.release());
        if (st < 0 && st != PGW_ELEASE) throw error(st, pgw_status_text(st));
        return st == PGW_OK;
    }
    pgw_lock *get() const noexcept { return lock_.get(); }

private:
    std::unique_ptr<pgw_lock, detail::freer<pgw_lock_release>> lock_;
};

/** One connection, one thread. */
class handle {
public:
    handle() { open(nullptr); }
    explicit handle(const conf &c) { open(c.get()); }
    /** Wraps a connection of the caller, to take part in its transactions. Does not own it. */
    static handle attach(pg_conn *conn)
    {
        pgw *h = nullptr;
        const pgw_status st = pgw_attach(conn, nullptr, &h);
        handle it{h};
        it.check(st);
        return it;
    }

    enqueued enqueue(std::string_view queue, const job_spec &job = {},
                     std::optional<std::string> operation = {})
    {
        std::vector<const char *> tags;
        const pgw_job_spec spec = job.spec(tags);
        enqueued it{0, PGW_OK};
        it.outcome = check(pgw_enqueue(get(), std::string(queue).c_str(), &spec,
                                       detail::or_null(operation), &it.id));
        return it;
    }

    batch claim(const std::vector<std::string> &queues, const claim_options &options = {})
    {
        std::vector<const char *> names;
        pgw_claim_opts opts = options.opts_;
        pgw_batch *jobs = nullptr;
        for (const std::string &q : queues) names.push_back(q.c_str());
        opts.queues = names.data(), opts.queues_count = names.size();
        check(pgw_claim(get(), &opts, &jobs));
        return batch(jobs);
    }

    /** The finishing verbs. False: the job was refused, because its lease is lost (PGW_ELEASE). */
    bool complete(const job &j, std::optional<std::string> output = {})
    {
        const pgw_ref ref = j.ref();
        const char *json = detail::or_null(output);
        return accepted(pgw_complete(get(), queue_of(j), &ref, &json, 1, nullptr));
    }
    bool fail(const job &j, std::string_view why, std::optional<milliseconds> retry = {})
    {
        const pgw_ref ref = j.ref();
        const std::string text(why);
        pgw_fail_opts opts = PGW_FAIL_OPTS_INIT;
        opts.error = text.c_str();
        if (retry) opts.retry_ms = retry->count();
        return accepted(pgw_fail(get(), queue_of(j), &ref, 1, &opts, nullptr));
    }
    bool snooze(const job &j, milliseconds delay)
    {
        const pgw_ref ref = j.ref();
        return accepted(pgw_snooze(get(), queue_of(j), &ref, 1, delay.count(), nullptr));
    }
    bool release(const job &j)
    {
        const pgw_ref ref = j.ref();
        return accepted(pgw_release(get(), queue_of(j), &ref, 1, nullptr));
    }
    /** Extends the lease. False: it is lost, or the job was cancelled. Stop in both cases. */
    bool extend(const job &j, std::optional<milliseconds> lease = {})
    {
        const pgw_ref ref = j.ref();
        pgw_status outcome = PGW_OK;
        const std::int64_t ms = lease ? lease->count() : PGW_DEFAULT;
        return accepted(pgw_extend(get(), queue_of(j), &ref, 1, ms, &outcome)) &&
               outcome != PGW_OUTCOME_CANCEL;
    }

    /** Runs fn() in a transaction and commits. An exception rolls back and is thrown again. After
     * PGW_ERETRY fn() is called again, at most `tries` times in all. */
    template <class F> void transaction(F &&fn, int tries = 1)
    {
        for (int left = tries;; left--) {
            try {
                check(pgw_txn_begin(get()));
                fn();
                check(pgw_txn_commit(get()));
                return;
            } catch (const error &e) {
                pgw_txn_rollback(get());
                if (e.status() != PGW_ERETRY || left <= 1) throw;
            } catch (...) {
                pgw_txn_rollback(get());
                throw;
            }
        }
    }

    /** Acquires a lock. Nothing: another holder kept it until the timeout. */
    std::optional<pgwork::lock> lock(std::string_view name, milliseconds timeout = {},
                                     pgw_lock_mode mode = PGW_LOCK_EXCLUSIVE)
    {
        pgw_lock *l = nullptr;
        const pgw_status st =
            pgw_lock_acquire(get(), std::string(name).c_str(), mode, timeout.count(), &l);
        if (st == PGW_ELOCKED) return std::nullopt;
        check(st);
        return pgwork::lock(l);
    }

    void set_stop(stop *s) noexcept { pgw_set_stop(get(), s ? s->get() : nullptr); }
    void set_timeout(milliseconds d) noexcept { pgw_set_timeout(get(), d.count()); }

    /** Throws an error with the diagnostics of the last call if st < 0. Otherwise returns st. */
    pgw_status check(pgw_status st) const
    {
        if (st < 0)
            throw error(st, pgw_error_message(get()), pgw_error_hint(get()),
                        pgw_error_sqlstate(get()));
        return st;
    }
    pgw *get() const noexcept { return handle_.get(); }

private:
    explicit handle(pgw *h) noexcept : handle_(h) {}
    void open(const pgw_conf *c)
    {
        pgw *h = nullptr;
        const pgw_status st = pgw_open(c, &h);
        handle_.reset(h);
        check(st);
    }
    bool accepted(pgw_status st) { return st == PGW_ELEASE ? false : (check(st), true); }
    static const char *queue_of(const job &j) noexcept { return pgw_job_queue(j.get()); }
    std::unique_ptr<pgw, detail::freer<pgw_close>> handle_;
};

/** A job that a handler works on. */
class task {
public:
    explicit task(pgw_task *t) noexcept : task_(t) {}
    pgwork::job job() const noexcept { return pgwork::job(pgw_task_job(task_)); }
    int signals() const noexcept { return pgw_task_signals(task_); }
    bool lost() const noexcept { return (signals() & PGW_SIGNAL_LOST) != 0; }
    void output(std::string_view json)
    {
        detail::check(pgw_task_set_output(task_, std::string(json).c_str()));
    }
    void delay(milliseconds d) noexcept { pgw_task_set_delay(task_, d.count()); }
    pgw_task *get() const noexcept { return task_; }

private:
    pgw_task *task_;
};

/** Calls a handler for each job. An exception that leaves the handler counts as PGW_VERDICT_RETRY,
 * and its what() is kept as the error of the job. */
class worker {
public:
    using handler = std::function<pgw_verdict(task &)>;

    worker(const std::vector<std::string> &queues, handler fn, const conf &c = {})
        : fn_(std::make_unique<handler>(std::move(fn)))
    {
        std::vector<const char *> names;
        pgw_worker_spec spec = PGW_WORKER_SPEC_INIT;
        pgw_worker *w = nullptr;
        for (const std::string &q : queues) names.push_back(q.c_str());
        spec.queues = names.data(), spec.queues_count = names.size();
        spec.handler = call, spec.arg = fn_.get();
        detail::check(pgw_worker_new(c.get(), &spec, &w));
        worker_.reset(w);
    }
    /** Works until stopped, or until worker.until_empty or worker.max_jobs ends it. */
    void run(stop &s)
    {
        const pgw_status st = pgw_worker_run(get(), s.get());
        if (st == PGW_ETIMEDOUT) fn_.release(); // handlers that did not return still use it
        if (st < 0) throw error(st, pgw_worker_error(get()));
    }
    pgw_worker_stats stats() const noexcept
    {
        pgw_worker_stats s = PGW_WORKER_STATS_INIT;
        pgw_worker_get_stats(get(), &s);
        return s;
    }
    pgw_worker *get() const noexcept { return worker_.get(); }

private:
    static pgw_verdict call(pgw_task *t, void *fn) noexcept
    {
        try {
            task it(t);
            return (*static_cast<handler *>(fn))(it);
        } catch (const std::exception &e) {
            pgw_task_set_error(t, e.what());
        } catch (...) {
            pgw_task_set_error(t, "an exception of an unknown type");
        }
        return PGW_VERDICT_RETRY;
    }
    std::unique_ptr<handler> fn_;
    std::unique_ptr<pgw_worker, detail::freer<pgw_worker_free>> worker_;
};

} // namespace pgwork

#endif
