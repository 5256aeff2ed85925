/* hpp: what pgwork.hpp promises, for 38_cpp.sh. Prints TAP lines. */
#include <pgwork.hpp>

#include <atomic>
#include <cstdio>
#include <cstring>

static void ok(bool yes, const char *name)
{
    std::printf("%s - %s\n", yes ? "ok" : "not ok", name);
}

template <class F> static pgw_status status_of(F &&fn)
{
    try {
        fn();
    } catch (const pgwork::error &e) {
        return e.status();
    }
    return PGW_OK;
}

static void configuration()
{
    pgwork::conf c;
    std::string said;
    c.set("worker.batch", "7").set(PGW_CONF_WORKER_LEASE_MS, std::chrono::minutes(1));
    ok(std::strcmp(pgw_conf_get(c.get(), "worker.lease_ms"), "60000") == 0,
       "a duration of any unit is a property in milliseconds");
    try {
        c.set("worker.batch", "many");
    } catch (const pgwork::error &e) {
        said = e.what();
        ok(e.status() == PGW_EINVAL, "a wrong value is an exception");
    }
    ok(said.find("worker.batch") != std::string::npos, "that names the property");
}

static void jobs(pgwork::handle &h)
{
    const auto first = h.enqueue(
        "cpp", pgwork::job_spec().kind("k").payload("{\"a\": 1}").body(std::string("\0x", 2)).unique("u"));
    const auto second = h.enqueue("cpp", pgwork::job_spec().unique("u"));
    ok(first.outcome == PGW_OK && second.outcome == PGW_OUTCOME_EXISTS && first.id == second.id,
       "a taken key is an outcome, with the id of the job that has it");
    {
        const auto batch = h.claim({"none", "cpp"}, pgwork::claim_options().max(5));
        ok(batch.size() == 1 && batch[0].id() == first.id && batch[0].kind() == "k" &&
               batch[0].body() == std::string_view("\0x", 2) && batch[0].queue() == "cpp",
           "a claimed job is what was enqueued");
        ok(h.extend(batch[0], std::chrono::seconds(30)), "a lease is extended");
        ok(h.complete(batch[0], "{\"done\": true}"), "a job is completed");
        ok(!h.complete(batch[0]), "a second time it is refused, which is no exception");
    }
    ok(h.claim({"cpp"}).empty(), "an empty claim is an empty batch");
    ok(status_of([&] { h.enqueue(""); }) == PGW_EINVAL, "an error is an exception with its status");
}

static void transactions(pgwork::handle &h)
{
    const pgw_status st = status_of([&] {
        h.transaction([&] {
            h.enqueue("cpp");
            throw pgwork::error(PGW_ECONFLICT, "no");
        });
    });
    ok(st == PGW_ECONFLICT && h.claim({"cpp"}).empty(), "an exception rolls back, and goes on");
    h.transaction([&] { h.enqueue("cpp"); });
    const auto batch = h.claim({"cpp"});
    ok(batch.size() == 1, "without one it is committed");
    int tries = 0;
    h.transaction([&] { if (++tries < 3) throw pgwork::error(PGW_ERETRY, "again"); }, 5);
    ok(tries == 3, "what may be repeated is repeated");
    if (!batch.empty()) ok(h.release(batch[0]), "a job is released");
    ok(h.snooze(h.claim({"cpp"})[0], std::chrono::hours(1)), "and snoozed");
}

static void locks(pgwork::handle &h)
{
    pgwork::handle other;
    auto mine = h.lock("cpp");
    ok(mine && mine->fence() > 0 && mine->held(), "a lock is held");
    ok(!other.lock("cpp"), "nobody else gets it, which is no exception");
    mine.reset();
    ok(other.lock("cpp", std::chrono::seconds(5)).has_value(), "the destructor releases it");
    ok(h.lock("cpp", std::chrono::seconds(5))->release(), "and so does release()");
}

static void workers(pgwork::handle &h)
{
    pgwork::conf c;
    pgwork::stop s;
    c.set(PGW_CONF_WORKER_UNTIL_EMPTY, true).set(PGW_CONF_WORKER_CONCURRENCY, 2);
    h.enqueue("cppw", pgwork::job_spec().payload("1"));
    h.enqueue("cppw", pgwork::job_spec().payload("2").max_attempts(1));
    pgwork::worker w(
        {"cppw"},
        [](pgwork::task &t) {
            if (t.job().payload() == "2") throw std::runtime_error("two is too many");
            t.progress("{}");
            if (t.last_progress()) throw std::runtime_error("nothing was stored");
            t.output("{}");
            return PGW_VERDICT_DONE;
        },
        c);
    w.run(s);
    ok(w.stats().completed == 1, "a worker calls the handler");
    std::string kind;
    h.enqueue("cppw", pgwork::job_spec().kind("k"));
    w.handle("k", [&](pgwork::task &t) { return kind = t.job().kind(), PGW_VERDICT_DONE; });
    w.run(s);
    ok(kind == "k" && w.stats().completed == 2, "a job of a kind goes to the handler of that kind");
    ok(status_of([&] { w.handle("k\n", nullptr); }) == PGW_EINVAL, "a bad kind is an exception");
    w.add_source(c); /* the same database once more */
    h.enqueue("cppw", pgwork::job_spec().kind("k"));
    std::atomic<int> strayed{0};
    w.handle("k", [&](pgwork::task &t) { return strayed += t.source() > 1, PGW_VERDICT_DONE; });
    w.run(s);
    ok(strayed == 0 && w.stats(0).completed + w.stats(1).completed == 3 && w.stats().completed == 3,
       "a worker claims from several databases");
    pgw_jobs_opts o = PGW_JOBS_OPTS_INIT;
    std::string error;
    o.queue = "cppw", o.state = PGW_STATE_DEAD;
    pgw_jobs_each(
        h.get(), &o,
        [](const pgw_job *j, void *arg) {
            *static_cast<std::string *>(arg) = pgw_job_error(j);
            return 0;
        },
        &error);
    ok(error == "two is too many", "an exception of the handler is the job's error");
    ok(status_of([&] { pgwork::worker({}, nullptr, c); }) == PGW_EINVAL,
       "a worker without a queue is an exception");
}

static void queues(pgwork::handle &h)
{
    pgwork::queue q(h, "cppq");
    q.create(pgwork::queue_options().lease(std::chrono::minutes(1)).max_attempts(1).notify(false));
    const auto job = h.enqueue("cppq");
    const auto other = h.enqueue("cppq");
    q.pause();
    ok(h.claim({"cppq"}).empty(), "a paused queue gives no jobs");
    q.resume();
    h.fail(h.claim({"cppq"})[0], "no");
    const auto depth = q.depth();
    ok(depth.ready == 1 && depth.dead == 1, "a queue counts its jobs");
    ok(q.redrive() == 1 && q.depth().ready == 2, "dead letters are made ready again");
    ok(q.cancel(other.id) == PGW_OK, "a waiting job is cancelled");
    ok(status_of([&] { q.cancel(other.id); }) == PGW_ENOTFOUND, "and gone");
    bool seen = false;
    for (const auto &i : pgwork::queue::all(h))
        seen |= i.name == "cppq" && i.settings.lease_ms == 60000 && i.depth.ready == 1 &&
                i.settings.notify == PGW_SWITCH_OFF;
    ok(seen, "queues are listed with settings and counts");
    ok(!q.drop(), "a queue with jobs is not dropped, which is no exception");
    ok(q.purge(PGW_STATE_READY) == 1 && q.drop(), "an empty one is");
    ok(status_of([&] { q.pause(); }) == PGW_ENOTFOUND && job.id > 0, "and is not there any more");
}

static void semaphores(pgwork::handle &h)
{
    pgwork::semaphore s(h, "cpp");
    s.create(1);
    s.create(2);
    ok(s.status().permits == 2, "a semaphore is made, or resized");
    auto two = s.acquire(pgwork::permit_options().permits(2).ttl(std::chrono::minutes(1)));
    ok(two && two->token().number > 0 && s.status().taken == 2, "permits are taken");
    ok(two->extend(std::chrono::minutes(2)), "and extended");
    ok(!s.acquire(), "nothing is left for others, which is no exception");
    ok(!s.drop(), "nor is the semaphore dropped");
    pgwork::permits moved = std::move(*two);
    two.reset();
    ok(s.status().taken == 2, "permits that were moved are held by the new object");
    ok(moved.release() && s.status().taken == 0, "they are returned");
    { const auto one = s.acquire(pgwork::permit_options().wait(std::chrono::seconds(5))); }
    ok(s.status().taken == 0, "the destructor returns them, too");
    ok(s.drop(), "a free semaphore is dropped");
}

static void schedules(pgwork::handle &h)
{
    using namespace std::chrono_literals;
    const auto times = pgwork::schedule::next(h, "0 2 * * *", 3, "Europe/Berlin");
    ok(times.size() == 3 && times[2] - times[0] >= 47h, "an expression has next times");
    ok(status_of([&] { pgwork::schedule::next(h, "never"); }) == PGW_EINVAL, "a wrong one throws");
    pgwork::schedule jobs(h, "cpp jobs");
    const auto next = jobs.create("@every 1h", pgwork::schedule_options().queue("cpps").job(
                                                   pgwork::job_spec().kind("hourly").tag("t")));
    ok(next.has_value() && jobs.run() > 0, "a schedule with a queue enqueues");
    ok(h.claim({"cpps"})[0].kind() == "hourly", "the job that it describes");
    jobs.drop();
    pgwork::schedule node(h, "cpp node");
    node.create("@every 1h", pgwork::schedule_options().timeout(1min));
    node.rename("cpp nodes");
    std::chrono::milliseconds again{0};
    ok(!pgwork::schedule::claim(h, {"cpp nodes"}, &again) && again > 0ms,
       "when no tick is due, it says when to ask again");
    ok(node.run() == PGW_NONE, "a schedule without a queue has no job");
    {
        const auto t = pgwork::schedule::claim(h, {"cpp nodes"});
        ok(t && t->schedule() == "cpp nodes" && t->until() > t->slot(), "but a tick for one node");
    }
    auto t = pgwork::schedule::claim(h, {"cpp nodes"});
    ok(t && t->attempt() == 1, "the destructor gives it to the next one, and charges nothing");
    ok(t->extend() && t->finish(), "which extends and finishes it");
    node.drop();
}

static void tables(pgwork::handle &h)
{
    const auto spec = pgwork::table_spec("cpp_article").key({"id"}).version("version").leases(
        "locked_by", "expires_at", "token");
    ok(status_of([&] { pgwork::table(h, spec); }) == PGW_ESCHEMA, "missing columns are an error");
    const pgwork::table t(h, spec, true);
    ok(t.sql().empty(), "and added on demand");
    {
        const auto rows = t.claim(h, pgwork::row_claim().max(2).holder("ann").columns({"title"}).where(
                                         "id < $1").values({"3"}));
        ok(rows.size() == 2 && rows.get(0, "title") == "one" && !rows.get(1, "title") &&
               rows.key(1) == "2",
           "rows are leased, and NULL is nothing");
        ok(t.extend(h, rows, 0, std::chrono::minutes(1)), "a lease is extended");
        ok(t.finish(h, rows, 0, "title = $1", {"first"}), "a row is written and freed");
        ok(!t.finish(h, rows, 0, "title = 'x'"), "a second time it is refused");
        ok(t.release(h, rows, 1), "another one is released");
    }
    ok(t.get(h, {"1"}, {"title"}).get(0, "title") == "first", "a row is read");
    ok(t.get(h, {"99"}, {"title"}).empty(), "one that is not there is empty");
    t.process(h, {"2"}, [](pgwork::edit &e) { e.set("title", e.get("title").value_or("two")); });
    ok(t.get(h, {"2"}, {"title"}).get(0, "title") == "two", "a row is changed by a function");
    std::string said;
    try {
        t.process(h, {"2"}, [](pgwork::edit &) { throw std::runtime_error("not this one"); });
    } catch (const std::runtime_error &e) {
        said = e.what();
    }
    ok(said == "not this one", "whose exception goes on");
}

static void reapers(pgwork::handle &h)
{
    pgwork::reaper::pass(h);
    pgwork::conf c;
    pgwork::stop s;
    int ticks = 0, reloads = 0;
    pgwork::reaper r(c);
    r.on_reload([&] {
        reloads++;
        s.notify();
        return pgwork::conf();
    });
    r.on_tick([&](const pgw_reap_stats &stats) {
        ticks++;
        if (stats.ticks > 0) r.reload();
    });
    r.run(s);
    ok(ticks > 0 && reloads == 1, "a reaper calls back after a tick, and for its configuration");
    pgwork::stop again;
    pgwork::reaper bad(c);
    bad.on_tick([](const pgw_reap_stats &) { throw std::runtime_error("enough"); });
    std::string said;
    try {
        bad.run(again);
    } catch (const std::runtime_error &e) {
        said = e.what();
    }
    ok(said == "enough", "an exception of a callback ends it, and goes on");
}

int main()
{
    try {
        configuration();
        pgwork::handle h;
        jobs(h);
        transactions(h);
        locks(h);
        workers(h);
        queues(h);
        semaphores(h);
        schedules(h);
        tables(h);
        reapers(h);
        pgwork::handle moved = std::move(h);
        ok(moved.claim({"none"}).empty(), "a handle that was moved goes on");
    } catch (const std::exception &e) {
        std::printf("not ok - %s\n", e.what());
        return 1;
    }
}
