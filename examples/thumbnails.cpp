/* SPDX-License-Identifier: PostgreSQL
 *
 * thumbnails: a queue and its worker in C++17. Enqueues a job for each argument, and works until the
 * queue is empty:
 *
 *   thumbnails a.png b.png
 */
#include <pgwork.hpp>

#include <iostream>

int main(int argc, char **argv)
{
    try {
        pgwork::handle h;
        for (int i = 1; i < argc; i++) {
            const auto added =
                h.enqueue("thumbnails", pgwork::job_spec().kind("resize").body(argv[i]).unique(
                                            argv[i])); // a file that is being worked on is not added
            if (added.outcome == PGW_OUTCOME_EXISTS)
                std::cout << argv[i] << " is job " << added.id << " already\n";
        }

        pgwork::conf c;
        c.set(PGW_CONF_WORKER_UNTIL_EMPTY, true).set(PGW_CONF_WORKER_CONCURRENCY, 1);
        pgwork::worker w(
            {"thumbnails"},
            [](pgwork::task &t) {
                const std::string file(t.job().body());
                if (file.find('.') == std::string::npos) throw std::runtime_error("not an image");
                std::cout << "resized " << file << "\n";
                return PGW_VERDICT_DONE;
            },
            c);
        pgwork::stop s;
        w.run(s);
        std::cout << w.stats().completed << " done, " << w.stats().failed << " failed\n";
    } catch (const pgwork::error &e) {
        std::cerr << pgw_status_name(e.status()) << ": " << e.what() << "\n";
        return 1;
    }
}
