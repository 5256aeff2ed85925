# pgwork.hpp: the C++17 layer, and its example.
. "$(dirname "$0")/tap"
if ! command -v g++ >/dev/null; then
    echo 'ok - the C++ layer # SKIP no g++'
    exit 0
fi
pgwork -q migrate
build() { # build SOURCE PROGRAM
    g++ -std=c++17 -Wall -Wextra -Wpedantic -Wshadow -Werror -I "$top/inc" "$1" "$top/build/libpgwork.a" \
        -o "$2" $(pkg-config --libs libpq 2>/dev/null || echo -lpq) -pthread
}
code 'the test of the C++ layer compiles' 0 build "$top/test/cli/hpp.cpp" "$tmp/hpp"
psql -qXc "CREATE TABLE cpp_article (id int PRIMARY KEY, title text);
    INSERT INTO cpp_article VALUES (1, 'one'), (2, NULL)"
"$tmp/hpp" >"$tmp/said" || bad=1
cat "$tmp/said"
if grep -q '^not ok' "$tmp/said"; then bad=1; fi
code 'the example compiles' 0 build "$top/examples/thumbnails.cpp" "$tmp/thumbnails"
code 'the example runs' 0 "$tmp/thumbnails" a.png b.png a.png
is 'what it was made for' "$(grep -v already "$tmp/out" | sort)" '2 done, 0 failed
resized a.png
resized b.png'
code 'the example with a schedule compiles' 0 build "$top/examples/nightly.cpp" "$tmp/nightly"
psql -qXc "CREATE TABLE nightly (id int PRIMARY KEY, title text, reviewed timestamptz);
    INSERT INTO nightly VALUES (1, 'On rows'), (2, 'On locks')"
code 'the example with a schedule runs' 0 "$tmp/nightly" now
is 'it did what was due' "$(cat "$tmp/out")" 'reviewed On rows
reviewed On locks
done'
exit 0
