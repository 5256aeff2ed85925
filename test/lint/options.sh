#!/bin/sh
# options.sh: every option of pgwork stands in its man page and in both completions, every command has
# a page and is known to them, and every page says the exit codes or where they are.
set -eu
cd "$(dirname "$0")/../.."
cli=examples/pgwork bad=0

complain() { echo "$*"; bad=1; }

# "command letter name" for each row of an option table
options() {
    awk '
        FNR == 1 { command = FILENAME; sub(/.*\/(cmd_)?/, "", command); sub(/(_.*)?\.c$/, "", command)
                   if (FILENAME ~ /opts\.c$/) command = "" }
        /FILTER_OPTS\(&/ { for (i = 1; i <= shared; i++) print command, filter[i] }
        /CLI_RATE_OPTS\(/ && FILENAME ~ /\.c$/ { for (i = 1; i <= rates; i++) print command, rate[i] }
        /^int cmd_[a-z]+\(/ { command = $2; sub(/^cmd_/, "", command); sub(/\(.*/, "", command) }
        match($0, /\{(0|.[a-zA-Z0-9].), "[a-z][a-z-]*", ("|NULL)/) {
            row = substr($0, RSTART, RLENGTH)
            letter = row ~ /^\{0,/ ? "-" : substr(row, 3, 1)
            split(row, quoted, "\"")
            if (FILENAME ~ /filter\.h$/) filter[++shared] = letter " " quoted[2]
            else if (FILENAME ~ /cli\.h$/) rate[++rates] = letter " " quoted[2]
            else print (command == "" ? "global" : command), letter, quoted[2]
        }' $cli/filter.h $cli/cli.h $cli/opts.c $cli/cmd_*.c $cli/cron*.c examples/pgwork-ui/ui.c
}

options >"${TMPDIR:-/tmp}/pgwork-options.$$"
trap 'rm -f "${TMPDIR:-/tmp}/pgwork-options.$$"' EXIT
count=0
while read -r command letter name; do
    count=$((count + 1))
    page=doc/man/pgwork-$command.1
    if [ "$command" = global ]; then page=doc/man/pgwork.1; fi
    if [ "$letter" = - ]; then
        grep -q "^\.It Fl -$name\( \|\$\)" "$page" || complain "$page: --$name is missing"
    else
        grep -q "^\.It Fl $letter , Fl -$name\( \|\$\)" "$page" || complain "$page: -$letter, --$name is missing"
        grep -q -e "-${letter}[ |\"]" $cli/completion/pgwork.bash || complain "pgwork.bash: -$letter is missing"
    fi
    for f in $cli/completion/pgwork.bash "$cli"/completion/_pgwork; do
        grep -q -e "--$name\([^a-z-]\|\$\)" $f || complain "$f: --$name is missing"
    done
done <"${TMPDIR:-/tmp}/pgwork-options.$$"
[ $count -gt 60 ] || complain "only $count options were found in the sources"

for command in $(sed -n 's/^    {"\([a-z]*\)", ".*", cmd_.*/\1/p' $cli/main.c); do
    for f in $cli/completion/pgwork.bash $cli/completion/_pgwork doc/man/pgwork.1; do
        grep -qw "$command" $f || complain "$f: $command is missing"
    done
    case $command in help | version) continue ;; esac
    page=doc/man/pgwork-$command.1
    [ -f "$page" ] || { complain "$page is missing"; continue; }
    grep -q '^\.Xr pgwork 1' "$page" || complain "$page: does not point to pgwork(1)"
done

# what a page tells has to be there
for page in doc/man/pgwork-*.1; do
    command=${page##*pgwork-} command=${command%.1}
    for name in $(sed -n 's/^\.It Fl \(. , Fl \)\{0,1\}-\([a-z-]*\).*/\2/p' "$page"); do
        grep -q "^$command . $name\$" "${TMPDIR:-/tmp}/pgwork-options.$$" ||
            [ "$command$name" = enqueuejson-lines ] || complain "$page: there is no --$name"
    done
done

# what becomes of each job, in --json: extend alone says locked and cancel
for command in complete fail extend release snooze; do
    words='stale, gone'
    if [ "$command" = extend ]; then words='locked, stale, gone, cancel'; fi
    grep -q "^(or $words)\.\$" "doc/man/pgwork-$command.1" || complain "pgwork-$command.1: not the words of --json: $words"
done

if command -v man >/dev/null && man --version 2>/dev/null | grep -q man; then
    for page in doc/man/*.1; do
        said=$(man --warnings -E UTF-8 -l "$page" 2>&1 >/dev/null) || :
        [ -z "$said" ] || complain "$page: $said"
    done
fi
exit $bad
