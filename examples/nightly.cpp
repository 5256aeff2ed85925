/* SPDX-License-Identifier: PostgreSQL
 *
 * nightly: many machines run this program, and each night one of them does the work: a schedule, a
 * semaphore and row leases in C++17. Reviews the articles of the table `nightly`, of which it may
 * review two at a time over all machines:
 *
 *   CREATE TABLE nightly (id int PRIMARY KEY, title text, reviewed timestamptz);
 *   nightly            works when a tick is due
 *   nightly now        makes a tick first
 */
#include <pgwork.hpp>

#include <iostream>

using namespace std::chrono_literals;

static void review(pgwork::handle &h, const pgwork::table &articles)
{
    for (;;) {
        const auto permit =
            pgwork::semaphore(h, "reviews").acquire(pgwork::permit_options().wait(10s).ttl(5min));
        if (!permit) throw std::runtime_error("others review all the time");
        const auto rows = articles.claim(
            h, pgwork::row_claim().where("reviewed IS NULL").columns({"title"}).lease(5min));
        if (rows.empty()) return;
        std::cout << "reviewed " << rows.get(0, "title").value_or("an article") << "\n";
        if (!articles.finish(h, rows, 0, "reviewed = now()"))
            std::cout << "it took too long: another machine has it\n";
    }
}

int main(int argc, char **)
{
    try {
        pgwork::handle h;
        const pgwork::table articles(
            h, pgwork::table_spec("nightly").key({"id"}).leases("locked_by", "expires_at", "token"),
            true);
        pgwork::semaphore(h, "reviews").create(2);
        pgwork::schedule nightly(h, "nightly");
        nightly.create("0 2 * * *", pgwork::schedule_options().zone("Europe/Berlin").timeout(10min));
        if (argc > 1) nightly.run();

        std::chrono::milliseconds again{0};
        if (auto tick = pgwork::schedule::claim(h, {"nightly"}, &again)) {
            review(h, articles); // an exception releases the tick for another machine
            std::cout << (tick->finish() ? "done\n" : "too late\n");
        } else {
            std::cout << "nothing to do for " << again.count() << " ms\n";
        }
    } catch (const std::exception &e) {
        std::cerr << e.what() << "\n";
        return 1;
    }
}
