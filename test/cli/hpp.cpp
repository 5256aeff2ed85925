/* hpp: what pgwork.hpp promises, for 38_cpp.sh. Prints TAP lines. */
#include <pgwork.hpp>

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
    pgw_jobs_opts o = PGW_JOBS_OPTS_INIT;
    std::string error;
    o.queue = "cppw", o.state = "dead";
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

int main()
{
    try {
        configuration();
        pgwork::handle h;
        jobs(h);
        transactions(h);
        locks(h);
        workers(h);
        pgwork::handle moved = std::move(h);
        ok(moved.claim({"none"}).empty(), "a handle that was moved goes on");
    } catch (const std::exception &e) {
        std::printf("not ok - %s\n", e.what());
        return 1;
    }
}
