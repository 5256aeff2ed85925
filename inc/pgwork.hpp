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
 * Classes: conf, stop, handle, job_spec, job, batch, worker and task, lock; queue, semaphore and permits,
 * schedule and tick, table, rows and edit, reaper.
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
using time_point = std::chrono::time_point<std::chrono::system_clock, std::chrono::microseconds>;

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
/* Throws what the last call on h failed with; returns any status >= 0. */
inline pgw_status check(const pgw *h, pgw_status st)
{
    if (st < 0)
        throw error(st, pgw_error_message(h), pgw_error_hint(h), pgw_error_sqlstate(h));
    return st;
}
/* The same, except that `no` is false. */
inline bool accepted(const pgw *h, pgw_status st, pgw_status no = PGW_ELEASE)
{
    return st == no ? false : (check(h, st), true);
}
inline const char *or_null(const std::optional<std::string> &s)
{
    return s ? s->c_str() : nullptr;
}
inline std::string_view view(const char *s) noexcept { return s ? s : std::string_view(); }
inline std::string text(const char *s) { return s ? s : ""; }
inline time_point time(std::int64_t us) { return time_point(std::chrono::microseconds(us)); }
/* What the C interface reads: pointers into the strings of a vector. */
inline std::vector<const char *> pointers(const std::vector<std::string> &texts)
{
    std::vector<const char *> p;
    for (const std::string &t : texts) p.push_back(t.c_str());
    return p;
}
/* An exception must not go through the library: it waits here for the end of the call. */
class guard {
public:
    template <class F> bool run(F &&fn) noexcept
    {
        try {
            fn();
        } catch (...) {
            thrown_ = std::current_exception();
        }
        return !thrown_;
    }
    void rethrow()
    {
        if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
    }

private:
    std::exception_ptr thrown_;
};
/* What an _each function of the library lists, each item converted by `convert`. */
template <class T, class Info> struct list {
    std::vector<T> items;
    guard caught;
    T (*convert)(const Info &);
    explicit list(T (*fn)(const Info &)) : convert(fn) {}
    static int add(const Info *info, void *arg) noexcept
    {
        list &self = *static_cast<list *>(arg);
        return self.caught.run([&] { self.items.push_back(self.convert(*info)); }) ? 0 : 1;
    }
};
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
    /** With it the enqueue can be repeated: a UUID as text, a new one for each job. */
    job_spec &operation(std::string_view id) { op_ = id; return *this; }
    job_spec &priority(int n) { spec_.priority = n; return *this; }
    job_spec &max_attempts(int n) { spec_.max_attempts = n; return *this; }
    job_spec &delay(milliseconds d) { spec_.delay_ms = d.count(); return *this; }
    job_spec &lease(milliseconds d) { spec_.lease_ms = d.count(); return *this; }
    job_spec &ttl(milliseconds d) { spec_.ttl_ms = d.count(); return *this; }
    /** What PGW_KEY_POLICY_REPLACE and PGW_KEY_POLICY_DELAY replace: PGW_KEY_REPLACE_..., by `|`. */
    job_spec &replaces(int what) { spec_.key_replace = what; return *this; }
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
    friend class schedule_options;
    /* What the C interface reads, borrowed from this object and `tags`. */
    pgw_job_spec spec(std::vector<const char *> &tags) const
    {
        pgw_job_spec s = spec_;
        tags = detail::pointers(tags_);
        s.payload = detail::or_null(payload_), s.kind = detail::or_null(kind_);
        s.meta = detail::or_null(meta_), s.group = detail::or_null(group_);
        s.key = detail::or_null(key_), s.op = detail::or_null(op_);
        if (body_) s.body = body_->data(), s.body_size = body_->size();
        s.tags = tags.data(), s.tags_count = tags.size();
        return s;
    }
    pgw_job_spec spec_ = PGW_JOB_SPEC_INIT;
    std::optional<std::string> payload_, kind_, meta_, group_, key_, op_, body_;
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
    std::string_view queue() const noexcept { return detail::view(pgw_job_queue(job_)); }
    std::string_view kind() const noexcept { return detail::view(pgw_job_kind(job_)); }
    std::string_view payload() const noexcept { return detail::view(pgw_job_payload(job_)); }
    std::string_view meta() const noexcept { return detail::view(pgw_job_meta(job_)); }
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

    enqueued enqueue(std::string_view queue, const job_spec &job = {})
    {
        std::vector<const char *> tags;
        const pgw_job_spec spec = job.spec(tags);
        enqueued it{0, PGW_OK};
        it.outcome = check(pgw_enqueue(get(), std::string(queue).c_str(), &spec, &it.id));
        return it;
    }

    batch claim(const std::vector<std::string> &queues, const claim_options &options = {})
    {
        const std::vector<const char *> names = detail::pointers(queues);
        pgw_claim_opts opts = options.opts_;
        pgw_batch *jobs = nullptr;
        opts.queues = names.data(), opts.queues_count = names.size();
        check(pgw_claim(get(), &opts, &jobs));
        return batch(jobs);
    }

    /** The finishing verbs. False: the job was refused, because its lease is lost (PGW_ELEASE). */
    bool complete(const job &j, std::optional<std::string> output = {})
    {
        pgw_ref ref = j.ref();
        const char *json = detail::or_null(output);
        pgw_complete_opts opts = PGW_COMPLETE_OPTS_INIT;
        opts.outputs = &json;
        return accepted(pgw_complete(get(), queue_of(j), &ref, 1, &opts));
    }
    bool fail(const job &j, std::string_view why, std::optional<milliseconds> retry = {})
    {
        pgw_ref ref = j.ref();
        const std::string text(why);
        pgw_fail_opts opts = PGW_FAIL_OPTS_INIT;
        opts.error = text.c_str();
        if (retry) opts.retry_ms = retry->count();
        return accepted(pgw_fail(get(), queue_of(j), &ref, 1, &opts));
    }
    bool progress(const job &j, std::string_view json)
    {
        pgw_ref ref = j.ref();
        return accepted(pgw_progress(get(), queue_of(j), &ref, std::string(json).c_str()));
    }
    bool snooze(const job &j, milliseconds delay)
    {
        pgw_ref ref = j.ref();
        pgw_snooze_opts opts = PGW_SNOOZE_OPTS_INIT;
        opts.delay_ms = delay.count();
        return accepted(pgw_snooze(get(), queue_of(j), &ref, 1, &opts));
    }
    bool release(const job &j)
    {
        pgw_ref ref = j.ref();
        return accepted(pgw_release(get(), queue_of(j), &ref, 1));
    }
    /** Extends the lease. False: it is lost, or the job was cancelled. Stop in both cases. */
    bool extend(const job &j, std::optional<milliseconds> lease = {})
    {
        pgw_ref ref = j.ref();
        pgw_extend_opts opts = PGW_EXTEND_OPTS_INIT;
        if (lease) opts.lease_ms = lease->count();
        return accepted(pgw_extend(get(), queue_of(j), &ref, 1, &opts)) &&
               ref.outcome != PGW_OUTCOME_CANCEL;
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
        pgw_lock_opts opts = PGW_LOCK_OPTS_INIT;
        pgw_lock *l = nullptr;
        opts.mode = mode, opts.timeout_ms = timeout.count();
        const pgw_status st = pgw_lock_acquire(get(), std::string(name).c_str(), &opts, &l);
        if (st == PGW_ELOCKED) return std::nullopt;
        check(st);
        return pgwork::lock(l);
    }

    void set_stop(stop *s) { check(pgw_set_stop(get(), s ? s->get() : nullptr)); }
    void set_timeout(milliseconds d) { check(pgw_set_timeout(get(), d.count())); }

    /** Throws an error with the diagnostics of the last call if st < 0. Otherwise returns st. */
    pgw_status check(pgw_status st) const
    {
        return detail::check(get(), st);
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
    bool accepted(pgw_status st) const { return detail::accepted(get(), st); }
    static const char *queue_of(const job &j) noexcept { return pgw_job_queue(j.get()); }
    std::unique_ptr<pgw, detail::freer<pgw_close>> handle_;
};

/* ---- queues, for operators ---- */

/** Settings of a queue. A setting that is not given is unchanged. */
class queue_options {
public:
    queue_options &lease(milliseconds d) { opts_.lease_ms = d.count(); return *this; }
    queue_options &backoff(milliseconds first, milliseconds cap)
    {
        opts_.backoff_ms = first.count(), opts_.backoff_cap_ms = cap.count();
        return *this;
    }
    queue_options &retention(milliseconds d) { opts_.retention_ms = d.count(); return *this; }
    queue_options &dead_retention(milliseconds d) { opts_.dead_retention_ms = d.count(); return *this; }
    queue_options &max_attempts(int n) { opts_.max_attempts = n; return *this; }
    queue_options &max_bytes(int n) { opts_.max_bytes = n; return *this; }
    queue_options &notify(bool on)
    {
        opts_.notify = on ? PGW_SWITCH_ON : PGW_SWITCH_OFF;
        return *this;
    }
    queue_options &expired(pgw_expired what) { opts_.expired = what; return *this; }
    const pgw_queue_opts *get() const noexcept { return &opts_; }

private:
    pgw_queue_opts opts_ = PGW_QUEUE_OPTS_INIT;
};

struct queue_depth {
    std::int64_t ready, leased, delayed, dead, done;
    milliseconds oldest; /* how long the oldest ready job has waited */
    explicit queue_depth(const pgw_depth &d)
        : ready(d.ready), leased(d.leased), delayed(d.delayed), dead(d.dead), done(d.done),
          oldest(d.oldest_ms)
    {
    }
};

struct queue_info {
    std::string name;
    bool paused, draining;
    pgw_queue_opts settings; /* all are set */
    queue_depth depth;
};

/** A queue, with the verbs of an operator. Use it only while its connection is open. */
class queue {
public:
    queue(handle &h, std::string_view name) : h_(h.get()), name_(name) {}
    /** Creates the queue. If it exists, changes the given settings. */
    void create(const queue_options &o = {}) { detail::check(h_, pgw_queue_create(h_, id(), o.get())); }
    void set(const queue_options &o) { detail::check(h_, pgw_queue_set(h_, id(), o.get())); }
    void pause() { detail::check(h_, pgw_queue_pause(h_, id())); }
    void drain() { detail::check(h_, pgw_queue_drain(h_, id())); }
    void resume() { detail::check(h_, pgw_queue_resume(h_, id())); }
    /** Deletes jobs in a state, or all except leased ones. Returns how many. */
    std::int64_t purge(pgw_state state = PGW_STATE_ANY)
    {
        std::int64_t n = 0;
        detail::check(h_, pgw_queue_purge(h_, id(), state, &n));
        return n;
    }
    /** False: the queue has jobs, and force was not set. */
    bool drop(bool force = false)
    {
        return detail::accepted(h_, pgw_queue_drop(h_, id(), force), PGW_ELOCKED);
    }
    queue_depth depth(std::int64_t at_most = PGW_UNLIMITED)
    {
        pgw_depth d = PGW_DEPTH_INIT;
        detail::check(h_, pgw_queue_depth(h_, id(), at_most, &d));
        return queue_depth(d);
    }
    /** Makes dead letters ready again. Returns how many. */
    std::int64_t redrive(std::int64_t limit = PGW_UNLIMITED)
    {
        pgw_redrive_opts o = PGW_REDRIVE_OPTS_INIT;
        std::int64_t n = 0;
        o.limit = limit;
        detail::check(h_, pgw_redrive(h_, id(), &o, &n));
        return n;
    }
    /** PGW_OK: removed; PGW_OUTCOME_CANCEL: it runs, and its holder is asked to stop. */
    pgw_status cancel(std::int64_t job)
    {
        pgw_ref ref = {job, {0, 0}, PGW_OK};
        return detail::check(h_, pgw_cancel(h_, id(), &ref, 1));
    }
    const std::string &name() const noexcept { return name_; }
    static std::vector<queue_info> all(handle &h, std::int64_t at_most = PGW_UNLIMITED)
    {
        detail::list<queue_info, pgw_queue_info> found([](const pgw_queue_info &i) {
            return queue_info{detail::text(i.name), i.paused, i.draining, *i.opts,
                              queue_depth(*i.depth)};
        });
        pgw_queues_opts o = PGW_QUEUES_OPTS_INIT;
        o.at_most = at_most;
        const pgw_status st = pgw_queues_each(h.get(), &o, found.add, &found);
        found.caught.rethrow();
        h.check(st);
        return std::move(found.items);
    }

private:
    const char *id() const noexcept { return name_.c_str(); }
    pgw *h_;
    std::string name_;
};

/* ---- semaphores ---- */

class permit_options {
public:
    permit_options &permits(int n) { opts_.permits = n; return *this; }
    permit_options &ttl(milliseconds d) { opts_.ttl_ms = d.count(); return *this; }
    permit_options &wait(milliseconds d) { opts_.timeout_ms = d.count(); return *this; }
    permit_options &wait_until_stopped() { opts_.timeout_ms = PGW_UNLIMITED; return *this; }
    /** The permits return when the session ends, without waiting for the ttl. */
    permit_options &session(bool yes = true) { opts_.session = yes; return *this; }
    permit_options &holder(std::string_view name) { holder_ = name; return *this; }

private:
    friend class semaphore;
    pgw_sema_opts get() const noexcept
    {
        pgw_sema_opts o = opts_;
        o.holder = detail::or_null(holder_);
        return o;
    }
    pgw_sema_opts opts_ = PGW_SEMA_OPTS_INIT;
    std::optional<std::string> holder_;
};

/** Permits. The destructor returns them. Use them only while their connection is open. */
class permits {
public:
    permits(pgw *h, std::string name, pgw_token token)
        : h_(h), name_(std::move(name)), token_(token)
    {
    }
    permits(permits &&other) noexcept
        : h_(std::exchange(other.h_, nullptr)), name_(std::move(other.name_)), token_(other.token_)
    {
    }
    permits &operator=(permits &&other) noexcept
    {
        std::swap(h_, other.h_), std::swap(name_, other.name_), std::swap(token_, other.token_);
        return *this;
    }
    ~permits()
    {
        if (h_) pgw_sema_release(h_, name_.c_str(), token_);
    }
    /** False: their time is over, so they are lost. */
    bool extend(milliseconds ttl)
    {
        return detail::accepted(h_, pgw_sema_extend(h_, name_.c_str(), token_, ttl.count()));
    }
    /** Returns them now. False: they were lost before. */
    bool release()
    {
        pgw *h = std::exchange(h_, nullptr);
        return detail::accepted(h, pgw_sema_release(h, name_.c_str(), token_));
    }
    pgw_token token() const noexcept { return token_; }

private:
    pgw *h_;
    std::string name_;
    pgw_token token_;
};

/** A semaphore. Use it only while its connection is open. */
class semaphore {
public:
    semaphore(handle &h, std::string_view name) : h_(h.get()), name_(name) {}
    /** Creates the semaphore, or changes its number of permits. */
    void create(int permits)
    {
        const pgw_status st = pgw_sema_create(h_, name_.c_str(), permits);
        detail::check(h_, st == PGW_EEXISTS ? pgw_sema_resize(h_, name_.c_str(), permits) : st);
    }
    /** False: permits are held, and force was not set. */
    bool drop(bool force = false)
    {
        return detail::accepted(h_, pgw_sema_drop(h_, name_.c_str(), force), PGW_ELOCKED);
    }
    /** Acquires permits. Nothing: not enough were free until the timeout. */
    std::optional<permits> acquire(const permit_options &options = {})
    {
        const pgw_sema_opts opts = options.get();
        pgw_token token;
        const pgw_status st = pgw_sema_acquire(h_, name_.c_str(), &opts, &token);
        if (st == PGW_ELOCKED) return std::nullopt;
        detail::check(h_, st);
        return std::optional<permits>(std::in_place, h_, name_, token);
    }
    /** Numbers only: the name is NULL. */
    pgw_sema_info status()
    {
        pgw_sema_info info = PGW_SEMA_INFO_INIT;
        detail::check(h_, pgw_sema_status(h_, name_.c_str(), &info));
        return info;
    }

private:
    pgw *h_;
    std::string name_;
};

/* ---- schedules ---- */

class schedule_options {
public:
    schedule_options &zone(std::string_view name) { zone_ = name; return *this; }
    /** A tick is a job in this queue. Without one, a node holds it: see schedule::claim(). */
    schedule_options &queue(std::string_view name) { queue_ = name; return *this; }
    schedule_options &job(job_spec spec) { job_ = std::move(spec); return *this; }
    schedule_options &misfire(pgw_misfire what, int most = 100)
    {
        opts_.misfire = what, opts_.misfire_max = most;
        return *this;
    }
    schedule_options &grace(milliseconds d) { opts_.grace_ms = d.count(); return *this; }
    schedule_options &jitter(milliseconds d) { opts_.jitter_ms = d.count(); return *this; }
    schedule_options &timeout(milliseconds d) { opts_.timeout_ms = d.count(); return *this; }

private:
    friend class schedule;
    pgw_status create(pgw *h, const char *name, const char *expression, std::int64_t *next_us) const
    {
        std::vector<const char *> tags;
        const pgw_job_spec spec = job_.spec(tags);
        pgw_cron_opts o = opts_;
        o.zone = detail::or_null(zone_), o.queue = detail::or_null(queue_), o.job = &spec;
        return pgw_cron_create(h, name, expression, &o, next_us);
    }
    pgw_cron_opts opts_ = PGW_CRON_OPTS_INIT;
    std::optional<std::string> zone_, queue_;
    job_spec job_;
};

/** A tick that this node holds. If it is not finished, the destructor releases it for another node.
 * Use it only while its connection is open. */
class tick {
public:
    tick(pgw *h, pgw_tick *t) noexcept : h_(h), tick_(t) {}
    tick(tick &&) noexcept = default;
    tick &operator=(tick &&other) noexcept
    {
        std::swap(h_, other.h_), std::swap(tick_, other.tick_);
        return *this;
    }
    ~tick()
    {
        if (tick_) pgw_cron_release(h_, token());
    }
    std::string_view schedule() const noexcept { return detail::view(pgw_tick_schedule(get())); }
    std::string_view kind() const noexcept { return detail::view(pgw_tick_kind(get())); }
    std::string_view payload() const noexcept { return detail::view(pgw_tick_payload(get())); }
    /** When it was due, and when the lease ends. */
    time_point slot() const { return detail::time(pgw_tick_slot_us(get())); }
    time_point until() const { return detail::time(pgw_tick_until_us(get())); }
    int attempt() const noexcept { return pgw_tick_attempt(get()); }
    pgw_token token() const noexcept { return pgw_tick_token(get()); }
    /** Finishes it, with an error to record if it failed. False: another node has it. */
    bool finish(std::optional<std::string> error = {})
    {
        const pgw_token token = this->token();
        tick_.reset();
        return detail::accepted(h_, pgw_cron_finish(h_, token, detail::or_null(error)));
    }
    bool extend(std::optional<milliseconds> timeout = {})
    {
        const std::int64_t ms = timeout ? timeout->count() : PGW_DEFAULT;
        return detail::accepted(h_, pgw_cron_extend(h_, token(), ms, nullptr));
    }
    pgw_tick *get() const noexcept { return tick_.get(); }

private:
    pgw *h_;
    std::unique_ptr<pgw_tick, detail::freer<pgw_tick_free>> tick_;
};

/** A schedule. Use it only while its connection is open. */
class schedule {
public:
    schedule(handle &h, std::string_view name) : h_(h.get()), name_(name) {}
    /** Creates the schedule, or changes it to this definition. Returns the next tick. Nothing: it is
     * paused. */
    std::optional<time_point> create(std::string_view expression, const schedule_options &o = {})
    {
        std::int64_t next_us = PGW_NONE;
        detail::check(h_, o.create(h_, id(), std::string(expression).c_str(), &next_us));
        if (next_us == PGW_NONE) return std::nullopt;
        return detail::time(next_us);
    }
    void pause() { detail::check(h_, pgw_cron_pause(h_, id())); }
    void resume() { detail::check(h_, pgw_cron_resume(h_, id())); }
    void drop() { detail::check(h_, pgw_cron_drop(h_, id())); }
    void rename(std::string_view name)
    {
        std::string renamed(name);
        detail::check(h_, pgw_cron_rename(h_, id(), renamed.c_str()));
        name_ = std::move(renamed);
    }
    /** Adds a tick now. Returns its job; PGW_NONE: a node will claim the tick. */
    std::int64_t run()
    {
        std::int64_t job = PGW_NONE;
        detail::check(h_, pgw_cron_run(h_, id(), &job));
        return job;
    }
    /** A due tick of these schedules, or of all without a queue. Nothing: none is due; *again is
     * the time until the next call. */
    static std::optional<tick> claim(handle &h, const std::vector<std::string> &schedules = {},
                                     milliseconds *again = nullptr)
    {
        const std::vector<const char *> names = detail::pointers(schedules);
        pgw_cron_claim_opts o = PGW_CRON_CLAIM_OPTS_INIT;
        std::int64_t next_ms = 0;
        pgw_tick *t = nullptr;
        if (!names.empty()) o.schedules = names.data(), o.schedules_count = names.size();
        const pgw_status st = h.check(pgw_cron_claim_due(h.get(), &o, &t, &next_ms));
        if (again) *again = milliseconds(next_ms);
        if (st == PGW_OUTCOME_EMPTY) return std::nullopt;
        return std::optional<tick>(std::in_place, h.get(), t);
    }
    /** The next times of an expression. */
    static std::vector<time_point> next(handle &h, std::string_view expression, int n = 1,
                                        std::string_view zone = "UTC")
    {
        struct found {
            std::vector<time_point> times;
            detail::guard caught;
        } it;
        const std::string place(zone);
        pgw_cron_next_opts o = PGW_CRON_NEXT_OPTS_INIT;
        o.zone = place.c_str(), o.max = n;
        const pgw_status st = pgw_cron_next(
            h.get(), std::string(expression).c_str(), &o,
            [](std::int64_t us, const char *, void *arg) noexcept {
                found &f = *static_cast<found *>(arg);
                return f.caught.run([&] { f.times.push_back(detail::time(us)); }) ? 0 : 1;
            },
            &it);
        it.caught.rethrow();
        h.check(st);
        return std::move(it.times);
    }

private:
    const char *id() const noexcept { return name_.c_str(); }
    pgw *h_;
    std::string name_;
};

/* ---- the caller's own tables ---- */

using texts = std::vector<std::string>;

/** Describes a table: table_spec("article").key({"journal", "number"}).version("version"). */
class table_spec {
public:
    explicit table_spec(std::string_view table) : table_(table) {}
    table_spec &schema(std::string_view name) { schema_ = name; return *this; }
    table_spec &key(texts columns) { key_ = std::move(columns); return *this; }
    table_spec &leases(std::string_view locked_by, std::string_view expires_at,
                       std::string_view token)
    {
        locked_by_ = locked_by, expires_at_ = expires_at, token_ = token;
        return *this;
    }
    table_spec &version(std::string_view column) { version_ = column; return *this; }
    /** SQL fragment that is inserted into statements unchanged. */
    table_spec &claimable(std::string_view fragment) { claimable_ = fragment; return *this; }

private:
    friend class table;
    pgw_status open(pgw *h, pgw_table **t) const
    {
        const std::vector<const char *> key = detail::pointers(key_);
        pgw_table_spec s = PGW_TABLE_SPEC_INIT;
        s.schema = detail::or_null(schema_), s.table = table_.c_str();
        s.key = key.data(), s.key_count = key.size();
        s.locked_by = detail::or_null(locked_by_), s.expires_at = detail::or_null(expires_at_);
        s.token = detail::or_null(token_), s.version = detail::or_null(version_);
        s.claimable = detail::or_null(claimable_);
        return pgw_table_open(h, &s, t);
    }
    std::string table_;
    std::optional<std::string> schema_, locked_by_, expires_at_, token_, version_, claimable_;
    texts key_;
};

/** Rows of a table, perhaps none. Views are valid as long as the object. */
class rows {
public:
    rows() = default;
    explicit rows(pgw_rows *r) noexcept : rows_(r) {}
    std::size_t size() const noexcept { return pgw_rows_count(get()); }
    bool empty() const noexcept { return size() == 0; }
    /** Nothing: SQL NULL, or a column that was not requested. */
    std::optional<std::string_view> get(std::size_t row, std::string_view column) const
    {
        const char *value = pgw_rows_get(get(), row, std::string(column).c_str());
        if (!value) return std::nullopt;
        return value;
    }
    /** The i-th value of the key. */
    std::string_view key(std::size_t row, std::size_t i = 0) const noexcept
    {
        return detail::view(pgw_rows_key(get(), row)[i]);
    }
    std::string_view version(std::size_t row) const noexcept
    {
        return detail::view(pgw_rows_version(get(), row));
    }
    time_point lease_until(std::size_t row) const
    {
        return detail::time(pgw_rows_lease_until_us(get(), row));
    }
    pgw_rows *get() const noexcept { return rows_.get(); }

private:
    std::unique_ptr<pgw_rows, detail::freer<pgw_rows_free>> rows_;
};

class row_claim {
public:
    row_claim &max(int n) { opts_.max = n; return *this; }
    row_claim &lease(milliseconds d) { opts_.lease_ms = d.count(); return *this; }
    row_claim &holder(std::string_view name) { holder_ = name; return *this; }
    /** SQL fragments, with $1, $2, ... for the values. */
    row_claim &where(std::string_view fragment) { where_ = fragment; return *this; }
    row_claim &order(std::string_view fragment) { order_ = fragment; return *this; }
    row_claim &values(texts v) { values_ = std::move(v); return *this; }
    row_claim &columns(texts c) { columns_ = std::move(c); return *this; }

private:
    friend class table;
    pgw_status claim(pgw *h, const pgw_table *t, pgw_rows **found) const
    {
        const std::vector<const char *> values = detail::pointers(values_);
        const std::vector<const char *> columns = detail::pointers(columns_);
        pgw_table_claim_opts o = opts_;
        o.holder = detail::or_null(holder_);
        o.where = detail::or_null(where_), o.order = detail::or_null(order_);
        o.values = values.data(), o.values_count = values.size();
        o.columns = columns.data(), o.columns_count = columns.size();
        return pgw_table_claim(h, t, &o, found);
    }
    pgw_table_claim_opts opts_ = PGW_TABLE_CLAIM_OPTS_INIT;
    std::optional<std::string> holder_, where_, order_;
    texts values_, columns_;
};

/** The row that a function of table::process() works on. */
class edit {
public:
    explicit edit(pgw_edit *e) noexcept : edit_(e) {}
    std::optional<std::string> get(std::string_view column) const
    {
        const char *value = pgw_edit_get(edit_, std::string(column).c_str());
        if (!value) return std::nullopt;
        return value;
    }
    void set(std::string_view column, std::optional<std::string> value)
    {
        detail::check(pgw_edit_set(edit_, std::string(column).c_str(), detail::or_null(value)));
    }

private:
    pgw_edit *edit_;
};

/** A table of the caller. Any handle on the same database may use it, in any thread. */
class table {
public:
    /** Looks up the table. `init`: adds missing columns and indexes. */
    table(handle &h, const table_spec &spec, bool init = false)
    {
        pgw_status st = open(h, spec);
        if (init && table_ && *pgw_table_sql(get()) != '\0') {
            h.check(pgw_table_init(h.get(), get()));
            st = open(h, spec);
        }
        h.check(st);
    }
    /** The statements that add missing columns and indexes; "": none is missing. */
    std::string_view sql() const noexcept { return pgw_table_sql(get()); }

    rows claim(handle &h, const row_claim &what = {}) const
    {
        pgw_rows *r = nullptr;
        h.check(what.claim(h.get(), get(), &r));
        return rows(r);
    }
    /** The verbs on one claimed row. False: the lease is lost, or the row is gone. */
    bool extend(handle &h, const rows &r, std::size_t row, milliseconds lease) const
    {
        pgw_row_ref ref = pgw_rows_ref(r.get(), row);
        pgw_table_extend_opts o = PGW_TABLE_EXTEND_OPTS_INIT;
        o.lease_ms = lease.count();
        return detail::accepted(h.get(), pgw_table_extend(h.get(), get(), &ref, 1, &o));
    }
    bool release(handle &h, const rows &r, std::size_t row) const
    {
        pgw_row_ref ref = pgw_rows_ref(r.get(), row);
        return detail::accepted(h.get(), pgw_table_release(h.get(), get(), &ref, 1));
    }
    /** Writes the row and frees it: finish(h, r, 0, "verdict = $1", {"accepted"}). */
    bool finish(handle &h, const rows &r, std::size_t row, std::string_view set,
                const texts &values = {}) const
    {
        const std::vector<const char *> given = detail::pointers(values);
        const std::string fragment(set);
        pgw_row_ref ref = pgw_rows_ref(r.get(), row);
        pgw_table_finish_opts o = PGW_TABLE_FINISH_OPTS_INIT;
        o.set = fragment.c_str(), o.values = given.data(), o.values_count = given.size();
        return detail::accepted(h.get(), pgw_table_finish(h.get(), get(), &ref, 1, &o));
    }

    /** Reads one row with its version; empty: the row does not exist. */
    rows get(handle &h, const texts &key, const texts &columns) const
    {
        const std::vector<const char *> k = detail::pointers(key), c = detail::pointers(columns);
        pgw_table_get_opts o = PGW_TABLE_GET_OPTS_INIT;
        pgw_rows *r = nullptr;
        o.key = k.data(), o.columns = c.data(), o.columns_count = c.size();
        const pgw_status st = pgw_table_get(h.get(), get(), &o, &r);
        if (st == PGW_ENOTFOUND) return rows();
        h.check(st);
        return rows(r);
    }
    /** Reads the row, calls fn(edit &), and writes the columns that it set. If another session wrote
     * meanwhile, it starts again. An exception of fn ends it and is thrown again. */
    template <class F>
    pgw_status process(handle &h, const texts &key, F &&fn,
                       std::optional<std::string> operation = {}) const
    {
        struct call {
            F &fn;
            detail::guard caught;
        } it{fn, {}};
        const std::vector<const char *> k = detail::pointers(key);
        pgw_table_process_opts o = PGW_TABLE_PROCESS_OPTS_INIT;
        o.key = k.data(), o.op = detail::or_null(operation);
        const pgw_status st = pgw_table_process(
            h.get(), get(), &o,
            [](pgw_edit *e, void *arg) noexcept {
                call &c = *static_cast<call *>(arg);
                edit row(e);
                return c.caught.run([&] { c.fn(row); }) ? PGW_OK : PGW_ECANCELED;
            },
            &it);
        it.caught.rethrow();
        return h.check(st);
    }
    pgw_table *get() const noexcept { return table_.get(); }

private:
    pgw_status open(handle &h, const table_spec &spec)
    {
        pgw_table *t = nullptr;
        const pgw_status st = spec.open(h.get(), &t);
        table_.reset(t);
        return st;
    }
    std::unique_ptr<pgw_table, detail::freer<pgw_table_free>> table_;
};

/** A job that a handler works on. */
class task {
public:
    explicit task(pgw_task *t) noexcept : task_(t) {}
    pgwork::job job() const noexcept { return pgwork::job(pgw_task_job(task_)); }
    /** 0: the database of the worker's constructor; 1: the first one added; and so on. */
    std::size_t source() const noexcept { return pgw_task_source(task_); }
    int signals() const noexcept { return pgw_task_signals(task_); }
    bool lost() const noexcept { return (signals() & PGW_SIGNAL_LOST) != 0; }
    void output(std::string_view json)
    {
        detail::check(pgw_task_set_output(task_, std::string(json).c_str()));
    }
    void progress(std::string_view json)
    {
        detail::check(pgw_task_progress(task_, std::string(json).c_str()));
    }
    /** What was stored last, also by an earlier attempt. */
    std::optional<std::string> last_progress()
    {
        const char *json;
        detail::check(pgw_task_last_progress(task_, &json));
        return json ? std::optional<std::string>(json) : std::nullopt;
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
    {
        const std::vector<const char *> names = detail::pointers(queues);
        pgw_worker_spec spec = PGW_WORKER_SPEC_INIT;
        pgw_worker *w = nullptr;
        spec.queues = names.data(), spec.queues_count = names.size();
        spec.handler = call, spec.arg = keep(std::move(fn));
        detail::check(pgw_worker_new(c.get(), &spec, &w));
        worker_.reset(w);
    }
    /** Gives jobs of a kind a handler of their own, as pgw_worker_handle() does. */
    void handle(const std::string &kind, handler fn, const pgw_kind_opts *opts = nullptr)
    {
        const pgw_status st =
            pgw_worker_handle(get(), kind.c_str(), call, keep(std::move(fn)), opts);
        if (st < 0) throw error(st, pgw_worker_error(get()));
    }
    /** Claims from one more database, as pgw_worker_add_source() does. */
    void add_source(const conf &c)
    {
        const pgw_status st = pgw_worker_add_source(get(), c.get());
        if (st < 0) throw error(st, pgw_worker_error(get()));
    }
    /** Works until stopped, or until worker.until_empty or worker.max_jobs ends it. */
    void run(stop &s)
    {
        const pgw_status st = pgw_worker_run(get(), s.get());
        if (st == PGW_ETIMEDOUT) // handlers that did not return still use them
            for (auto &fn : fns_) (void)fn.release();
        if (st < 0) throw error(st, pgw_worker_error(get()));
    }
    pgw_worker_stats stats() const noexcept
    {
        pgw_worker_stats s = PGW_WORKER_STATS_INIT;
        pgw_worker_get_stats(get(), &s);
        return s;
    }
    /** Of one database. */
    pgw_worker_stats stats(std::size_t source) const noexcept
    {
        pgw_worker_stats s = PGW_WORKER_STATS_INIT;
        pgw_worker_get_source_stats(get(), source, &s);
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
    handler *keep(handler fn)
    {
        fns_.push_back(std::make_unique<handler>(std::move(fn)));
        return fns_.back().get();
    }
    std::vector<std::unique_ptr<handler>> fns_;
    std::unique_ptr<pgw_worker, detail::freer<pgw_worker_free>> worker_;
};

/** The loop that requeues, promotes, schedules and prunes. An exception of on_tick() or on_reload()
 * ends run(), which throws it. */
class reaper {
public:
    explicit reaper(const conf &c = {}) : state_(std::make_unique<state>())
    {
        pgw_reaper *r = nullptr;
        detail::check(pgw_reaper_new(c.get(), &r));
        reaper_.reset(r);
    }
    /** Called after every successful pass, from the thread of run(). Set it before run(). */
    void on_tick(std::function<void(const pgw_reap_stats &)> fn)
    {
        state_->on_tick = std::move(fn);
        detail::check(pgw_reaper_on_tick(get(), tick, state_.get()));
    }
    /** Returns a fresh configuration after reload(). Set it before run(). */
    void on_reload(std::function<conf()> fn)
    {
        state_->on_reload = std::move(fn);
        detail::check(pgw_reaper_on_reload(get(), fresh, state_.get()));
    }
    void run(stop &s)
    {
        state_->asked = &s;
        const pgw_status st = pgw_reaper_run(get(), s.get());
        state_->caught.rethrow();
        if (st < 0) throw error(st, pgw_reaper_error(get()));
    }
    /** Any thread, any signal handler. */
    void reload() noexcept { pgw_reaper_reload(get()); }
    /** One pass, without a loop. Returns the time until the next pass; 0: at once. */
    static milliseconds pass(handle &h, pgw_reap_stats *stats = nullptr)
    {
        std::int64_t next_ms = 0;
        h.check(pgw_reaper_tick(h.get(), stats, &next_ms));
        return milliseconds(next_ms);
    }
    pgw_reaper *get() const noexcept { return reaper_.get(); }

private:
    struct state {
        std::function<void(const pgw_reap_stats &)> on_tick;
        std::function<conf()> on_reload;
        std::optional<conf> latest;
        detail::guard caught;
        stop *asked = nullptr;
    };
    static void tick(const pgw_reap_stats *stats, void *arg) noexcept
    {
        state &s = *static_cast<state *>(arg);
        if (!s.caught.run([&] { s.on_tick(*stats); })) s.asked->notify();
    }
    static const pgw_conf *fresh(void *arg) noexcept
    {
        state &s = *static_cast<state *>(arg);
        if (s.caught.run([&] { s.latest = s.on_reload(); })) return s.latest->get();
        s.asked->notify();
        return nullptr;
    }
    std::unique_ptr<state> state_;
    std::unique_ptr<pgw_reaper, detail::freer<pgw_reaper_free>> reaper_;
};

} // namespace pgwork

#endif
