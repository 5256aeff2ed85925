# Builds and installs: flags, directories, man pages, CMake, archives.
. "$(dirname "$0")/tap"
unset MAKEFLAGS MAKELEVEL
ours() { make -s -C "$top" "$@"; }
root="$tmp/a root"
: "of all compilations the words of one"
words() { make -n -C "$top" B="$tmp/b" "$@" "$tmp/b/obj/base/conf.o" 2>/dev/null | grep -e ' -c src/base/conf.c ' >"$tmp/words"; }

words
yes 'assertions are left out' grep -qe ' -DNDEBUG ' "$tmp/words"
is 'a warning does not break a build' "$(grep -ce ' -Werror ' "$tmp/words")" 0
yes 'fortification is on' grep -qe ' -D_FORTIFY_SOURCE=[23] ' "$tmp/words"
words CPPFLAGS=-Dpackager WERROR=1
yes 'a packager can add flags' grep -qe ' -DNDEBUG -Dpackager ' "$tmp/words"
yes 'WERROR=1 makes warnings errors' grep -qe ' -Werror ' "$tmp/words"
for level in 3 '*'; do # a C library that warns of it
    printf '#!/bin/sh\ncase "$*" in *" -D_FORTIFY_SOURCE="%s*) exit 1 ;; esac\nexec cc "$@"\n' "$level" >"$tmp/cc"
    chmod 755 "$tmp/cc"
    words CC="$tmp/cc"
    cat "$tmp/words"
done | grep -oe '-D_FORTIFY_SOURCE=.' >"$tmp/levels"
is 'a level of fortification that the C library lacks is left out' "$(cat "$tmp/levels")" '-D_FORTIFY_SOURCE=2'

mkdir -p "$tmp/a tree/test/support"
cp -R "$top/Makefile" "$top/inc" "$top/src" "$top/migrations" "$tmp/a tree"
code 'a tree may have a space in its name' 0 make -s -C "$tmp/a tree" build/obj/base/conf.o
code 'an archive is refused outside of a commit' 2 make -s -C "$tmp/a tree" dist
is 'without a commit there is no archive' "$(ls "$tmp/a tree/build/"*.gz 2>/dev/null)" ''
if git -C "$top" rev-parse -q --verify HEAD >"$tmp/out" 2>&1; then
    code 'an archive of the commit' 0 make -s -C "$top" B="$tmp/b" dist
    yes 'an archive contains the generated SQL for builds without make' sh -c "tar -tzf '$tmp'/b/*.gz | grep -q '/generated/sql_data.inc\$'"
fi
umask 077
code 'install' 0 ours install DESTDIR="$root" PREFIX=/opt/pgwork LDCONFIG="touch $tmp/cached"
umask 022
is 'installed files are readable for all, whatever the umask' "$(find "$root"/* ! -perm -004 -o -type d ! -perm -005)" ''
is 'with DESTDIR the cache of libraries is not changed' "$(ls "$tmp/cached" 2>/dev/null)" ''
cd "$root/opt/pgwork" || exit 1
is 'the units start the installed program' "$(cat lib/systemd/system/*.service | grep -c '^ExecStart=/opt/pgwork/bin/pgwork ')" 3
is 'the units use the queue name without escapes' "$(cat lib/systemd/system/*.service | grep -c %I)" 0
is 'no placeholder is left in installed files' "$(cat lib/systemd/system/* lib/pkgconfig/*.pc | grep -c '@[a-z]*@')" 0
is 'each function has a man page' "$(ls share/man/man3 | wc -l)" "$(cat include/pgwork.h include/pgwork/*.h | grep -c '^PGW_API ')"
if command -v man >/dev/null; then
    yes 'man finds a page of section 3' sh -c 'MANPATH=$PWD/share/man man pgw_enqueue | grep -q "operation id"'
    yes 'man finds a page by each of its functions' sh -c 'MANPATH=$PWD/share/man man pgw_error_hint | grep -q pgw_error_status'
fi
if command -v groff >/dev/null; then
    is 'groff reports no fault in the pages' "$(cd share/man && for f in man3/*.3; do groff -mdoc -Tascii -ww -z "$f" 2>&1; done)" ''
fi
is 'the HTML reference knows each function' "$(grep -o '<a id="pgw_[a-z0-9_]*"' share/doc/pgwork/reference.html | sort -u | wc -l)" "$(ls share/man/man3 | wc -l)"
printf '#include <pgwork/job.h>\nint main(void) { return pgw_open(NULL, NULL) != PGW_EINVAL; }\n' >"$tmp/one.c"
code 'one header of many compiles, as installed' 0 sh -c 'cc -o "$0/one" "$0/one.c" -I include -L lib -lpgwork' "$tmp"
if command -v cmake >/dev/null; then
    code 'install in place' 0 ours install PREFIX="$tmp/cmake" LDCONFIG=true
    mkdir -p "$tmp/project"
    cp "$tmp/one.c" "$tmp/project/one.c"
    printf '%s\n' 'cmake_minimum_required(VERSION 3.10)' 'project(one C)' 'find_package(pgwork 0.1 REQUIRED)' \
        'add_executable(shared one.c)' 'target_link_libraries(shared pgwork::pgwork)' \
        'add_executable(static one.c)' 'target_link_libraries(static pgwork::static)' >"$tmp/project/CMakeLists.txt"
    code 'CMake finds the package' 0 cmake -S "$tmp/project" -B "$tmp/project/build" -DCMAKE_PREFIX_PATH="$tmp/cmake"
    code 'CMake builds with the package' 0 cmake --build "$tmp/project/build"
    yes 'the program runs with the shared library' "$tmp/project/build/shared"
    yes 'the program runs with the static library' "$tmp/project/build/static"
    sed -i 's/pgwork 0.1 /pgwork 0.2 /' "$tmp/project/CMakeLists.txt"
    code 'CMake refuses another version' 1 cmake -S "$tmp/project" -B "$tmp/project/other" -DCMAKE_PREFIX_PATH="$tmp/cmake"
fi
yes 'the license is installed' test -s share/doc/pgwork/LICENSE
cd share/doc/pgwork || exit 1
find . -name '*.md' | while read -r page; do
    grep -o '](\([^)#:]*\)[^):]*)' "$page" | sed 's/^](//; s/[#)].*//' |
        while read -r link; do test -e "${page%/*}/$link" || echo "$page: $link"; done
done >"$tmp/dead"
is 'the links of installed pages lead somewhere' "$(cat "$tmp/dead")" ''
cd "$root/opt/pgwork" || exit 1
version=$(sed -n 's/^Version: //p' lib/pkgconfig/pgwork.pc)
so=libpgwork.so.${version%.*}
is 'the library is named by major and minor version' "$(readlink lib/libpgwork.so) $(readlink "lib/$so")" "$so libpgwork.so.$version"
yes 'the soname is that name' sh -c "objdump -p 'lib/$so' | grep -q 'SONAME *$so\$'"
yes 'its symbols have that version' sh -c "objdump -T 'lib/$so' | grep -q 'PGW_${version%.*} .*pgw_open\$'"
code 'uninstall' 0 ours uninstall DESTDIR="$root" PREFIX=/opt/pgwork
is 'uninstall leaves nothing' "$(find "$root" ! -type d -o -path '*/pgwork/share/*' -name pgwork)" ''
code 'install in place' 0 ours install PREFIX="$tmp/place" LDCONFIG="touch $tmp/cached"
yes 'the cache of libraries is renewed' test -e "$tmp/cached"
is 'files with paths are made again for this prefix' "$(sed -n 's/^prefix=//p' "$tmp/place/lib/pkgconfig/pgwork.pc")" "$tmp/place"
exit 0
